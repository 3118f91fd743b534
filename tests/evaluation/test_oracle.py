from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cosmic_tta import make_method
from cosmic_tta.core.errors import CosmicError
from cosmic_tta.evaluation.evaluator import run_evaluation
from cosmic_tta.evaluation.oracle import ORACLE_GRID, oracle_fusion, oracle_surface, weighted_accuracy
from cosmic_tta.features.pack import FeaturePack

pytestmark = pytest.mark.pathless


def test_an_oracle_is_at_least_as_good_as_what_it_searches(pack: FeaturePack) -> None:
    assert pack.labels is not None
    for spec, branches in (("cosmic@official", {"css", "afv"}), ("dmn", {"clip_cache"})):
        done = run_evaluation(make_method(spec), pack)
        found = oracle_fusion(done, pack.labels)
        assert set(found.oracle_weights) == branches | {"zero_shot"}
        assert found.oracle_acc1 >= max(done.report.metrics["acc1"], done.report.metrics["zero_shot_acc1"])
        weights = {name: found.oracle_weights[name] for name in branches}
        assert weighted_accuracy(done.parts, weights, pack.labels[done.order]) == found.oracle_acc1
    with pytest.raises(CosmicError, match="no branches"):
        oracle_fusion(run_evaluation(make_method("zero_shot"), pack), pack.labels)


def test_the_oracle_gives_the_published_figures(shared: Path) -> None:
    """On the published program's own branches, the search gives the figures that it printed."""
    for name, wanted in (("whurs19-rn50", 93.57), ("whurs19-vitb32", 90.05)):
        labels = FeaturePack.open(shared / "packs" / name).labels
        assert labels is not None
        golden = np.load(shared / "golden" / f"cosmic_{name}.npz")
        found = []
        for seed in range(3):
            parts = {key: golden[f"seed{seed}_{short}"] for key, short in (("zero_shot", "zs"), ("css", "css"))}
            parts["afv"] = golden[f"seed{seed}_afv"]
            true = labels[golden[f"seed{seed}_order"]]
            tried = [weighted_accuracy(parts, {"css": b, "afv": c}, true) for b in ORACLE_GRID for c in ORACLE_GRID]
            found.append(max(tried))
        assert round(100 * float(np.mean(found)), 2) == wanted


def test_the_surface_equals_trying_every_weight() -> None:
    rng = np.random.default_rng(0)
    parts = {name: rng.random((50, 6)).astype(np.float32) for name in ("zero_shot", "css", "afv")}
    parts["css"] *= rng.random((50, 6)) < 0.5
    parts["afv"] *= rng.random((50, 6)) < 0.5
    true = rng.integers(6, size=50)
    weights = np.linspace(0, 10, 41)
    surface = oracle_surface(parts, true, weights, weights)
    double = {name: part.astype(np.float64) for name, part in parts.items()}
    for row, css in enumerate(weights):
        for column, afv in enumerate(weights):
            scores = double["zero_shot"] + css * double["css"] + afv * double["afv"]
            assert surface[row, column] == (scores.argmax(axis=1) == true).mean()
