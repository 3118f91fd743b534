from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cosmic_tta import Cosmic, Tda, ZeroShot
from cosmic_tta.core.arrays import agreement
from cosmic_tta.evaluation.evaluator import EvaluationProgress, evaluate, run_evaluation
from cosmic_tta.evaluation.streams.registry import STREAMS
from cosmic_tta.features.pack import FeaturePack


def test_evaluation_is_an_iterator_that_may_be_left_early(pack: FeaturePack) -> None:
    steps = evaluate(Cosmic(), pack, order="given")
    first, second = next(steps), next(steps)
    assert (first.done, second.done, first.total) == (1, 2, 120)
    assert (first.index, second.index) == (0, 1)
    assert first.acc1 in (0.0, 1.0)


def test_the_last_progress_equals_the_report(pack: FeaturePack) -> None:
    seen: list[EvaluationProgress] = []
    run = run_evaluation(Cosmic(), pack, seed=4, watch=seen.append)
    assert seen[-1].acc1 == pytest.approx(run.report.metrics["acc1"])
    assert seen[-1].zero_shot_acc1 == pytest.approx(run.report.metrics["zero_shot_acc1"])
    assert [step.index for step in seen] == run.order.tolist()


@pytest.mark.parametrize("order", STREAMS)
def test_every_kind_of_stream_is_scored_on_the_steps_that_count(pack: FeaturePack, order: str) -> None:
    seen: list[EvaluationProgress] = []
    run = run_evaluation(Tda(), pack, order=order, seed=2, watch=seen.append)
    assert run.labels is not None
    assert run.correct_steps is not None
    right = run.scores.argmax(axis=1) == run.labels
    assert run.report.metrics["acc1"] == pytest.approx(right[run.counted].mean())
    assert run.report.metrics["acc1"] == pytest.approx(seen[-1].acc1)
    assert run.report.metrics["zero_shot_acc1"] == pytest.approx(run.correct_steps.zero_shot_correct.mean())
    assert (run.report.n, run.report.counted) == (len(run.order), int(run.counted.sum()))
    assert run.report.metrics["gain_low"] <= run.report.metrics["gain"] <= run.report.metrics["gain_high"]
    assert ("auroc" in run.report.metrics) == (order == "open-set")
    assert run.curve(10**6)[-1] == pytest.approx(run.report.metrics["acc1"])


def test_no_label_reaches_a_method(pack: FeaturePack) -> None:
    assert pack.labels is not None
    one, two = (run_evaluation(Tda(), replace(pack, labels=labels)) for labels in (pack.labels, pack.labels[::-1]))
    np.testing.assert_array_equal(one.scores, two.scores)
    assert one.report.metrics != two.report.metrics


def test_unknown_images_are_scored_but_do_not_count(pack: FeaturePack) -> None:
    run = run_evaluation(ZeroShot(), pack, order="open-set")
    assert run.labels is not None
    assert run.scores.shape == (120, 15)
    assert (run.labels[~run.known] == -1).all()
    confidence = agreement(run.parts["zero_shot"], run.scores)
    first, second = confidence[run.known][:, None], confidence[~run.known][None]
    assert run.report.metrics["auroc"] == pytest.approx(((first > second) + 0.5 * (first == second)).mean())


def test_without_labels_predictions_are_made_and_metrics_absent(pack: FeaturePack) -> None:
    run = run_evaluation(ZeroShot(), replace(pack, labels=None), limit=10)
    assert run.report.metrics == {}
    assert run.correct_steps is None
    assert run.curve().tolist() == []
    assert run.scores.shape == (10, 20)
