"""Reports beside each other, as tables: of streams, of differences with intervals, of losses against shuffled."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean, stdev

from cosmic_tta.charts import Table, slug
from cosmic_tta.metrics import Hits, paired_interval, summary
from cosmic_tta.report import Report
from cosmic_tta.streams import is_correlated
from cosmic_tta.tables import ABSENT

ZERO_SHOT = "zero_shot"
DETAILS = (  # column, metric, form, factor
    ("macro", "macro_acc", ".2f", 100),
    ("NLL", "nll", ".3f", 1),
    ("Brier", "brier", ".3f", 1),
    ("ECE fitted", "ece_fitted", ".2f", 100),
    ("temperature", "temperature", ".2f", 1),
    ("AUROC", "auroc", ".2f", 100),
)
RARE = ("auroc",)  # these are told unasked, where they are
COLUMNS = ("method", "accuracy", "zero-shot", "gain", "top-5", "ECE", "ms/sample")


def results(reports: Iterable[Report]) -> list[Table]:
    """Return how methods did, one table a pack and stream: seeds are averaged.

    Zero-shot stands beside every method; ± is the deviation between seeds.
    """
    return [
        _table("results", stream_title(group), COLUMNS, [_row(title, own) for title, own in by_method(group).items()])
        for group in by_stream(reports)
    ]


def _table(kind: str, title: str, columns: Sequence[str], rows: Sequence[tuple[str, ...]]) -> Table:
    return Table(slug(kind, title), title, tuple(columns), rows)


def by_stream(reports: Iterable[Report]) -> list[list[Report]]:
    """Group reports by pack, order and auxiliary features."""
    groups: dict[tuple[str, str, str], list[Report]] = {}
    for report in reports:
        groups.setdefault((report.pack, report.order, report.aux), []).append(report)
    return list(groups.values())


def by_method(reports: Iterable[Report]) -> dict[str, list[Report]]:
    """Group reports by the method as one would ask for it."""
    groups: dict[str, list[Report]] = {}
    for report in reports:
        groups.setdefault(report.title, []).append(report)
    return groups


def stream_title(group: Sequence[Report]) -> str:
    """Name the pack, the stream and the seeds of a group."""
    first = group[0]
    sizes = sorted({report.n for report in group})
    n = " to ".join(map(str, sizes[:1] + sizes[1:][-1:]))
    order = first.order if first.aux == "given" else f"{first.order}, aux {first.aux}"
    seeds = sorted({report.seed for report in group})
    seeded = "" if first.order == "given" else f", seed{'s' * (len(seeds) > 1)} {', '.join(map(str, seeds))}"
    return f"{first.pack}: {n} images, {order}{seeded}"


def _row(title: str, group: Sequence[Report]) -> tuple[str, ...]:
    def percent(metric: str, form: str = ".2f", *, spread: bool = False) -> str:
        values = [100 * report.metrics[metric] for report in group if metric in report.metrics]
        if not values:
            return ABSENT
        deviation = f" ± {stdev(values):.2f}" if spread and len(values) > 1 else ""
        return f"{round(fmean(values), 2) + 0.0:{form}}{deviation}"  # + 0.0: never -0.00

    return (
        title,
        percent("acc1", spread=True),
        percent("zero_shot_acc1"),
        percent("gain", "+.2f"),
        percent("acc5"),
        percent("ece"),
        f"{fmean(report.ms_per_sample for report in group):.2f}",
    )


def losses(reports: Iterable[Report]) -> list[Table]:
    """Return what each method loses in streams whose classes come together, against the same images shuffled.

    One table a pack that was run both ways; what is compared are the seeds that both have.
    """
    tables = []
    for group in _by_pack(reports):
        orders = {own[0].order: by_method(own) for own in by_stream(group)}
        together = [order for order in orders if is_correlated(order)]
        if "shuffle" not in orders or not together:
            continue
        rows = []
        for title, shuffled in orders["shuffle"].items():
            cells = [_loss(shuffled, orders[order].get(title, [])) for order in together]
            rows.append((title, _mean(shuffled, "acc1"), *cells))
        aux = "" if group[0].aux == "given" else f", aux {group[0].aux}"
        title = f"{group[0].pack}{aux}: loss against shuffled"
        tables.append(_table("losses", title, ("method", "shuffle", *together), rows))
    return tables


def _by_pack(reports: Iterable[Report]) -> list[list[Report]]:
    groups: dict[tuple[str, str], list[Report]] = {}
    for report in reports:
        groups.setdefault((report.pack, report.aux), []).append(report)
    return list(groups.values())


def _accuracies(group: Iterable[Report]) -> dict[int, float]:
    return {report.seed: report.metrics["acc1"] for report in group if "acc1" in report.metrics}


def _loss(shuffled: Sequence[Report], together: Sequence[Report]) -> str:
    before, after = _accuracies(shuffled), _accuracies(together)
    both = sorted(before.keys() & after.keys())
    return signed(fmean(before[seed] - after[seed] for seed in both)) if both else ABSENT


def _mean(group: Sequence[Report], metric: str) -> str:
    found = [report.metrics[metric] for report in group if metric in report.metrics]
    return f"{100 * fmean(found):.2f}" if found else ABSENT


def signed(share: float) -> str:
    """Write a difference in points of a hundred, never as -0.00."""
    return f"{round(100 * share, 2) + 0.0:+.2f}"


def details(reports: Iterable[Report], *, every: bool = False) -> list[Table]:
    """Return what the tables of `sections` leave out, one table a stream: every metric, or only the rare ones."""
    tables = []
    for group in by_stream(reports):
        rows = {title: _details(own, every) for title, own in by_method(group).items()}
        columns = list(dict.fromkeys(name for row in rows.values() for name in row))
        if columns:
            words = [(title, *(row.get(name, ABSENT) for name in columns)) for title, row in rows.items()]
            tables.append(_table("details", f"{stream_title(group)}: more", ("method", *columns), words))
    return tables


def _details(group: Sequence[Report], every: bool) -> dict[str, str]:
    """Return the cells of a method by column, those that there are."""
    cells = {}
    for name, metric, form, factor in DETAILS:
        found = [factor * report.metrics[metric] for report in group if metric in report.metrics]
        if found and (every or metric in RARE):
            cells[name] = f"{fmean(found):{form}}"
    accuracies = list(_accuracies(group).values())
    worst = summary(accuracies).worst if accuracies else None
    if worst is not None:
        cells["worst tenth"] = f"{100 * worst:.2f}"
    if every:
        cells["MB"] = f"{fmean(report.state_mb for report in group):.2f}"
    return cells


def differences(outcomes: Sequence[tuple[Report, Hits]]) -> list[Table]:
    """Return each method's difference from zero-shot and from the first method, with intervals of 95 %.

    One table a stream with at least two methods. Zero-shot is that of the same run, with the same prompts; what is
    compared with the first method are the seeds that both have.
    """
    hits = {id(report): each for report, each in outcomes}
    tables = []
    for group in by_stream(report for report, _ in outcomes):
        methods = {title: {report.seed: hits[id(report)] for report in own} for title, own in by_method(group).items()}
        first, *others = methods
        if not others:
            continue
        bases: dict[str, Mapping[int, Hits] | None] = {"against zero-shot": None}
        if first != ZERO_SHOT:
            bases[f"against {first.split()[0]}"] = methods[first]
        rows: list[tuple[str, ...]] = [
            (title, *(_against(own, base) for base in bases.values()))
            for title, own in methods.items()
            if title != ZERO_SHOT
        ]
        title = f"{stream_title(group)}: differences, 95 % intervals"
        tables.append(_table("differences", title, ("method", *bases), rows))
    return tables


def _against(own: Mapping[int, Hits], other: Mapping[int, Hits] | None) -> str:
    """Write the difference in accuracy from another method, or from zero-shot, with its interval."""
    seeds = [seed for seed in own if (other is None or seed in other) and len(own[seed].images)]
    if own is other or not seeds:
        return ABSENT
    base = {seed: own[seed].zero_shot if other is None else other[seed].right for seed in seeds}
    found = paired_interval(
        [own[seed].right.astype(float) - base[seed] for seed in seeds], [own[seed].images for seed in seeds]
    )
    return f"{signed(found.mean)} [{signed(found.low)}, {signed(found.high)}]"
