from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cosmic_tta import Tda, ZeroShot, make_method
from cosmic_tta.core.arrays import as_float32, softmax, unit
from cosmic_tta.evaluation import temperature as temperature_module
from cosmic_tta.evaluation.evaluator import run_evaluation
from cosmic_tta.evaluation.streams.registry import make_stream
from cosmic_tta.evaluation.temperature import apply_temperature, fit_temperature, label_jointly, stream_temperature
from cosmic_tta.features.pack import FeaturePack
from cosmic_tta.features.synthetic import superclass_pack


def random_scores(rows: int = 300, classes: int = 7) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    return softmax(as_float32(3 * np.random.default_rng(0).standard_normal((rows, classes))))


@pytest.mark.parametrize("temperature", [0.25, 0.9, 1.0, 4.0])
def test_no_prediction_changes_with_temperature(temperature: float) -> None:
    scores = random_scores()
    scores[0] = [1, 0, 0, 0, 0, 0, 0]
    tempered = apply_temperature(scores, temperature)
    np.testing.assert_array_equal(np.argsort(-tempered, axis=1)[:, :3], np.argsort(-scores, axis=1)[:, :3])
    np.testing.assert_allclose(tempered.sum(axis=1), 1)
    assert np.isfinite(tempered).all()
    if temperature == 1:
        np.testing.assert_allclose(tempered, scores, rtol=1e-5)


def test_an_applied_temperature_is_found() -> None:
    scores, even = random_scores(), np.full(300, 1 / 300)
    accuracy = float(scores.max(axis=1).mean())
    for applied in (0.5, 1.0, 2.0):
        tempered = as_float32(apply_temperature(scores, applied))
        assert fit_temperature(tempered, even, accuracy) == pytest.approx(1 / applied, rel=1e-3)
    assert fit_temperature(scores, even, 1.0) == pytest.approx(0.25, rel=1e-3)
    assert fit_temperature(scores, even, 0.0) == pytest.approx(4.0, rel=1e-3)


def test_joint_labels_are_better_than_zero_shot() -> None:
    pack = superclass_pack(3, images=600)
    labels, directions = label_jointly(pack, np.arange(600))
    zero_shot = (unit(pack.clip[:, 0]) @ unit(pack.text).T).argmax(axis=1)
    assert (labels.argmax(axis=1) == pack.labels).mean() > (zero_shot == pack.labels).mean() + 0.15
    np.testing.assert_allclose(labels.sum(axis=1), 1, atol=1e-5)
    assert directions > 50


def test_neither_labels_nor_repetitions_change_the_temperature(pack: FeaturePack) -> None:
    assert pack.labels is not None
    run = run_evaluation(Tda(), pack, order="shuffle")
    blind = run_evaluation(Tda(), replace(pack, labels=None), order="shuffle")
    assert run.temperature == blind.temperature == run.report.metrics["temperature"]
    stream = make_stream("given", pack)
    twice = replace(stream, order=np.repeat(stream.order, 3))
    scores = run.scores[np.argsort(run.order)]
    assert stream_temperature(np.repeat(scores, 3, axis=0), twice) == pytest.approx(stream_temperature(scores, stream))


def test_few_directions_leave_the_scores_unchanged() -> None:
    rng = np.random.default_rng(2)
    labels = rng.integers(5, size=300)
    flat = np.zeros((300, 40), np.float32)  # images of a class differ in three directions
    flat[:, :3] = rng.standard_normal((300, 3))
    flat[np.arange(300), 10 + labels] = 2
    text = np.eye(40, dtype=np.float32)[10:15]
    pack = FeaturePack("flat", tuple("abcde"), unit(flat)[:, None], text, labels=labels, logit_scale=3.0)
    run = run_evaluation(ZeroShot(), pack)
    assert run.temperature == 1.0
    assert run.report.metrics["ece_fitted"] == pytest.approx(run.report.metrics["ece"], abs=1e-6)


def test_a_subset_of_many_images_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    pack = superclass_pack(3, images=1600, views=1)
    whole = run_evaluation(ZeroShot(), pack)
    monkeypatch.setattr(temperature_module, "MAX_IMAGES", 800)
    subset = run_evaluation(ZeroShot(), pack)
    assert subset.temperature != whole.temperature
    assert subset.temperature == pytest.approx(whole.temperature, rel=0.1)


def test_calibration_can_be_left_out(pack: FeaturePack) -> None:
    metrics = run_evaluation(ZeroShot(), pack, calibrate=False).report.metrics
    assert "ece" in metrics
    assert "ece_fitted" not in metrics


@pytest.mark.parametrize("name", ["zero_shot", "tda", "dmn", "cosmic", "bayes_means"])
@pytest.mark.parametrize("encoder", ["rn50", "vitb32"])
def test_calibration_lowers_the_error_on_real_features(shared: Path, name: str, encoder: str) -> None:
    pack = FeaturePack.open(shared / "packs" / f"whurs19-{encoder}")
    metrics = [run_evaluation(make_method(name), pack, seed=seed).report.metrics for seed in range(3)]
    before = float(np.mean([each["ece"] for each in metrics]))
    assert np.mean([each["ece_fitted"] for each in metrics]) < max(before, 0.02)  # an error below that is noise
