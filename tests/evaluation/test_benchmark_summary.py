from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cosmic_tta.core.errors import InputError
from cosmic_tta.evaluation.benchmark_summary import (
    ALL_STREAMS,
    Setting,
    SettingResult,
    average_seeds,
    leave_one_out,
    mean_interval,
    summarize_benchmark,
)
from cosmic_tta.evaluation.evaluator import run_evaluation
from cosmic_tta.features.pack import FeaturePack
from cosmic_tta.methods import make_method


def result(method: str, pack: str, gain: float, stream: str = "shuffle", aux: str = "none") -> SettingResult:
    return SettingResult(method, stream, Setting(pack, aux), gain, ece=0.1, auroc=None, ms=1.0)


def test_seeds_are_averaged_and_runs_without_labels_do_not_count(pack: FeaturePack) -> None:
    one, two = (run_evaluation(make_method("tda"), pack, order="open-set", seed=seed).report for seed in (0, 1))
    bare = run_evaluation(make_method("tda"), replace(pack, labels=None)).report
    (found,) = average_seeds([one, bare, two])
    assert (found.method, found.stream, found.setting) == ("tda", "open-set", Setting("generated-20", "given"))
    assert found.gain == pytest.approx((one.metrics["gain"] + two.metrics["gain"]) / 2)
    assert found.auroc == pytest.approx((one.metrics["auroc"] + two.metrics["auroc"]) / 2)


def test_mean_worst_and_rank_per_stream_and_over_all() -> None:
    gains = {"a": (0.03, -0.02), "b": (0.01, 0.01), "c": (0.01, 0.0)}
    results = [result(name, f"p{i}", gain) for name, own in gains.items() for i, gain in enumerate(own)]
    results.append(result("a", "p0", 0.05, "open-set"))
    summary = summarize_benchmark(results)
    assert list(summary) == ["shuffle", "open-set", ALL_STREAMS]
    a, b, c = summary["shuffle"]
    assert a.gain == pytest.approx(0.005)
    assert (a.worst, a.worst_at, a.results) == (-0.02, "p1 / none", 2)
    assert [row.rank for row in (a, b, c)] == [2.0, 1.75, 2.25]  # b and c share 2.5 on p0
    assert a.low == -0.02
    assert a.high == 0.03
    assert summary["open-set"][0].low is None  # one setting
    whole = summary[ALL_STREAMS][0]
    assert whole.gain == pytest.approx(0.02)
    assert whole.worst_at == "p1 / none, shuffle"
    assert whole.results == 3
    assert summarize_benchmark([]) == {}


def test_the_interval_resamples_settings_with_all_their_streams() -> None:
    rng = np.random.default_rng(1)
    gains = rng.normal(0.02, 0.01, 40)
    single = [result("a", f"p{i:02}", gain) for i, gain in enumerate(gains)]
    doubled = single + [replace(one, stream="dirichlet") for one in single]
    low, high = mean_interval(single)
    assert low is not None
    assert high is not None
    error = gains.std() / np.sqrt(40)
    np.testing.assert_allclose((low, high), (gains.mean() - 1.96 * error, gains.mean() + 1.96 * error), atol=4e-4)
    assert mean_interval(doubled) == pytest.approx((low, high))  # twice the streams are no new settings
    assert mean_interval(single) == (low, high)
    assert mean_interval(single, seed=1) != (low, high)


def test_parameters_are_chosen_on_the_other_data_sets() -> None:
    datasets = {"p": "P", "q1": "Q", "q2": "Q", "r": "R"}
    table = {"m": (0.01, 0.01, 0.01, 0.01), "m k=2": (0.09, 0.02, 0.0, 0.0), "m k=3": (-0.09, 0.03, 0.01, 0.03)}
    results = [
        result(name, pack, gain) for name, gains in table.items() for pack, gain in zip(datasets, gains, strict=True)
    ]
    rows = leave_one_out(results, datasets, "m")
    # Without P: Q 0.01, 0.01, 0.02 and R 0.01, 0, 0.03. Without Q or R: P makes k=2 the best.
    assert [(row.dataset, row.chosen) for row in rows] == [("P", "m k=3"), ("Q", "m k=2"), ("R", "m k=2")]
    assert [row.gain for row in rows] == pytest.approx([-0.09, 0.01, 0.0])
    assert [row.default_gain for row in rows] == pytest.approx([0.01] * 3)


def test_the_default_wins_ties_and_incomplete_candidates_are_not_chosen() -> None:
    datasets = {"p": "P", "q": "Q"}
    results = [result("m k=2", "p", 0.1), result("m k=2", "q", 0.1), result("m", "p", 0.1), result("m", "q", 0.1)]
    results += [result("m k=3", "p", 0.9)]
    assert [row.chosen for row in leave_one_out(results, datasets, "m")] == ["m", "m"]


def test_one_data_set_or_one_candidate_is_not_enough() -> None:
    results = [result("m", "p", 0.1), result("m k=2", "p", 0.1)]
    with pytest.raises(InputError, match="takes at least two; these packs are of 1: P"):
        leave_one_out(results, {"p": "P"}, "m")
    results = [result("m", "p", 0.1), result("m", "q", 0.1), result("m k=2", "q", 0.1)]
    with pytest.raises(InputError, match="complete are: m. Give several values"):
        leave_one_out(results, {"p": "P", "q": "Q"}, "m")
