from __future__ import annotations

from dataclasses import replace

import numpy as np

from cosmic_tta import Cosmic, Tda, ZeroShot
from cosmic_tta.evaluation.evaluator import run_evaluation
from cosmic_tta.evaluation.report import Report
from cosmic_tta.features.pack import FeaturePack
from cosmic_tta.reporting.comparison import (
    COLUMNS,
    accuracy_tables,
    detail_tables,
    difference_tables,
    shuffle_loss_tables,
)
from cosmic_tta.reporting.tables import markdown


def made_up(method: str, order: str, seed: int, acc1: float | None = None, **more: float) -> Report:
    metrics = more if acc1 is None else {"acc1": acc1, "zero_shot_acc1": 0.5, **more}
    return Report("made up", method, "default", {}, order, "given", seed, 9, metrics, 1.0, 2.0, {}, {})


def test_a_table_averages_seeds_and_names_changed_parameters(pack: FeaturePack) -> None:
    reports = [
        run_evaluation(method, pack, seed=seed).report for method in (ZeroShot(), Cosmic(shots=4)) for seed in (0, 1)
    ]
    (table,) = accuracy_tables(reports)
    rows = table.rows
    assert table.title == "generated-20: 120 images, shuffle, seeds 0, 1"
    assert [row[0] for row in rows] == ["zero_shot", "cosmic shots=4"]
    assert all("±" in str(row[1]) for row in rows)
    text = markdown(table)
    assert text.splitlines()[2] == f"| {' | '.join(COLUMNS)} |"
    assert text.count("\n") == 5


def test_without_labels_a_table_has_no_accuracy(pack: FeaturePack) -> None:
    run = run_evaluation(ZeroShot(), replace(pack, labels=None), limit=10)
    (table,) = accuracy_tables([run.report])
    assert (table.title, table.rows[0][1]) == ("generated-20: 10 images, shuffle, seed 0", "–")


def test_the_loss_against_shuffled() -> None:
    reports = [made_up("tda", "shuffle", seed, 0.8 + seed / 100) for seed in (0, 1, 2)]
    reports += [made_up("tda", "class-sequential", seed, 0.6) for seed in (0, 1)]
    reports += [made_up("tda", "dirichlet:0.01", 7, 0.6), made_up("dmn", "shuffle", 0, 0.5)]
    reports += [made_up("tda", "poisoned", 0, 0.1), made_up("dmn", "class-sequential", 0, 0.55)]
    (table,) = shuffle_loss_tables(reports)
    assert table.title == "made up: loss against shuffled"
    assert table.columns == ("method", "shuffle", "class-sequential", "dirichlet:0.01")
    assert table.rows == [("tda", "81.00", "+20.50", "–"), ("dmn", "50.00", "-5.00", "–")]  # of the seeds both have
    assert shuffle_loss_tables(reports[:3]) == []
    assert shuffle_loss_tables(reports[3:6]) == []
    assert "| tda | 81.00 | +20.50 | – |" in markdown(table)


def test_details_show_rare_metrics_always_and_the_others_if_asked() -> None:
    plain = [made_up("tda", "shuffle", seed, seed / 100, nll=1.5) for seed in range(20)]
    (table,) = detail_tables(plain)
    assert (table.columns, table.rows) == (("method", "worst tenth"), [("tda", "0.50")])
    assert detail_tables(plain[:19]) == []
    (table,) = detail_tables(plain[:2], every=True)
    assert (table.columns, table.rows) == (("method", "NLL", "MB"), [("tda", "1.500", "2.00")])
    (table,) = detail_tables([made_up("tda", "open-set", 0, 0.5, auroc=0.75), made_up("dmn", "open-set", 0, 0.5)])
    assert table.rows == [("tda", "75.00"), ("dmn", "–")]


def test_differences_between_methods_have_intervals(pack: FeaturePack) -> None:
    runs = [run_evaluation(method, pack, seed=seed) for method in (Tda(), ZeroShot(), Cosmic()) for seed in (0, 1)]
    results = [(run.report, run.correct_steps) for run in runs if run.correct_steps is not None]
    (table,) = difference_tables(results)
    assert table.columns == ("method", "against zero-shot", "against tda")
    assert [row[0] for row in table.rows] == ["tda", "cosmic"]
    assert table.rows[0][2] == "–"
    gain = np.mean([run.report.metrics["gain"] for run in runs[4:]])
    assert str(table.rows[1][1]).startswith(f"{100 * gain:+.2f} [")
    assert difference_tables(results[:2]) == []  # one method alone
    (table,) = difference_tables(results[2:])
    assert table.columns == ("method", "against zero-shot")
