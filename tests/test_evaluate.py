from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from cosmic_tta import Cosmic, ZeroShot
from cosmic_tta.errors import InputError
from cosmic_tta.evaluate import Progress, calibration_error, evaluate, measure, score
from cosmic_tta.ops import as_float32
from cosmic_tta.packs import FeaturePack
from cosmic_tta.report import COLUMNS, as_rows, from_json, markdown, sections


def test_evaluation_is_an_iterator_that_one_may_leave(pack: FeaturePack) -> None:
    steps = evaluate(Cosmic(), pack, order="given")
    first, second = next(steps), next(steps)
    assert (first.done, second.done, first.total) == (1, 2, 120)
    assert (first.index, second.index) == (0, 1)
    assert first.acc1 in (0.0, 1.0)


def test_the_last_progress_is_the_report(pack: FeaturePack) -> None:
    seen: list[Progress] = []
    run = score(Cosmic(), pack, seed=4, watch=seen.append)
    assert seen[-1].acc1 == pytest.approx(run.report.metrics["acc1"])
    assert seen[-1].zero_shot_acc1 == pytest.approx(run.report.metrics["zero_shot_acc1"])
    assert [step.index for step in seen] == run.order.tolist()


def test_metrics_by_hand() -> None:
    scores = as_float32([[0.7, 0.2, 0.1], [0.5, 0.3, 0.2], [0.1, 0.3, 0.6], [0.4, 0.4, 0.2]])
    labels = np.array([0, 1, 2, 1])
    zero_shot = np.eye(3, dtype=np.float32)[[0, 0, 0, 1]]
    got = measure(scores, zero_shot, labels)
    assert got["acc1"] == 0.5  # a tie goes to the first class, as argmax has it
    assert got["acc5"] == 1.0
    assert got["macro_acc"] == pytest.approx((1 + 0 + 1) / 3)
    assert got["zero_shot_acc1"] == 0.5
    assert got["gain"] == 0.0
    assert got["nll"] == pytest.approx(-np.log([0.7, 0.3, 0.6, 0.4]).mean(), rel=1e-5)
    squares = [0.09 + 0.04 + 0.01, 0.25 + 0.49 + 0.04, 0.01 + 0.09 + 0.16, 0.16 + 0.36 + 0.04]
    assert got["brier"] == pytest.approx(np.mean(squares), rel=1e-5)


def test_calibration_error_of_a_calibrated_and_of_a_boastful_forecast() -> None:
    hits = np.array([True, True, True, False])
    assert calibration_error(np.full(4, 0.75, np.float32), hits) == pytest.approx(0)
    assert calibration_error(np.ones(4, np.float32), hits) == pytest.approx(0.25)


def test_without_labels_predictions_are_made_and_metrics_absent(pack: FeaturePack) -> None:
    run = score(ZeroShot(), replace(pack, labels=None), limit=10)
    assert run.report.metrics == {}
    assert run.scores.shape == (10, 20)
    assert sections([run.report])["generated-20: 10 images, shuffle, seed 0"][0][1] == "–"


def test_reports_go_to_json_and_back(pack: FeaturePack) -> None:
    reports = [score(method, pack, seed=seed).report for method in (ZeroShot(), Cosmic(shots=4)) for seed in (0, 1)]
    assert from_json(json.dumps(as_rows(reports))) == reports
    assert reports[2].params["shots"] == 4
    assert reports[2].software["numpy"] == np.__version__
    for text in ("{", "[{}]", "3"):
        with pytest.raises(InputError, match="no list of reports"):
            from_json(text)


def test_a_table_averages_seeds_and_names_what_was_changed(pack: FeaturePack) -> None:
    reports = [score(method, pack, seed=seed).report for method in (ZeroShot(), Cosmic(shots=4)) for seed in (0, 1)]
    (title, rows), *others = sections(reports).items()
    assert not others
    assert title == "generated-20: 120 images, shuffle, seeds 0, 1"
    assert [row[0] for row in rows] == ["zero_shot", "cosmic shots=4"]
    assert all("±" in row[1] for row in rows)
    text = markdown(reports)
    assert text.splitlines()[2] == f"| {' | '.join(COLUMNS)} |"
    assert text.count("\n") == 5
