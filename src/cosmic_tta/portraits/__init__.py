"""What saved runs look like: their tables and charts, as outcomes. The labels here are the evaluator's own."""

from __future__ import annotations

from collections.abc import Sequence

from cosmic_tta.charts import Outcome
from cosmic_tta.portraits.answers import answers
from cosmic_tta.portraits.cases import cases
from cosmic_tta.portraits.choice import by_pack
from cosmic_tta.portraits.fusion import fusion
from cosmic_tta.portraits.results import results
from cosmic_tta.portraits.spaces import spaces
from cosmic_tta.runs import SavedRun

__all__ = ["portraits"]


def portraits(runs: Sequence[SavedRun]) -> list[Outcome]:
    """Return everything that can be shown of some runs, a pack after the other; what has no data is left out."""
    found = [results(runs)]
    packs = by_pack(runs)
    for pack, group in packs.items():
        suffix = f": {pack}" if len(packs) > 1 else ""
        found += [part(group, suffix) for part in (answers, fusion, spaces, cases)]
    return [outcome for outcome in found if outcome.charts or outcome.tables or outcome.missing]
