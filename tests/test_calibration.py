from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cosmic_tta import Tda, ZeroShot, calibration, make_method
from cosmic_tta.calibration import fit_temperature, stream_temperature, temper, together
from cosmic_tta.evaluate import score
from cosmic_tta.ops import as_float32, softmax, unit
from cosmic_tta.packs import FeaturePack
from cosmic_tta.streams import make_stream
from cosmic_tta.synthetic import superclass_pack


def random_scores(rows: int = 300, classes: int = 7) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    return softmax(as_float32(3 * np.random.default_rng(0).standard_normal((rows, classes))))


@pytest.mark.parametrize("temperature", [0.25, 0.9, 1.0, 4.0])
def test_no_answer_changes_with_temperature(temperature: float) -> None:
    scores = random_scores()
    scores[0] = [1, 0, 0, 0, 0, 0, 0]
    tempered = temper(scores, temperature)
    np.testing.assert_array_equal(np.argsort(-tempered, axis=1)[:, :3], np.argsort(-scores, axis=1)[:, :3])
    np.testing.assert_allclose(tempered.sum(axis=1), 1)
    assert np.isfinite(tempered).all()
    if temperature == 1:
        np.testing.assert_allclose(tempered, scores, rtol=1e-5)


def test_a_temperature_that_was_laid_on_is_found() -> None:
    scores, even = random_scores(), np.full(300, 1 / 300)
    honest = float(scores.max(axis=1).mean())
    for laid in (0.5, 1.0, 2.0):
        assert fit_temperature(as_float32(temper(scores, laid)), even, honest) == pytest.approx(1 / laid, rel=1e-3)
    assert fit_temperature(scores, even, 1.0) == pytest.approx(0.25, rel=1e-3)
    assert fit_temperature(scores, even, 0.0) == pytest.approx(4.0, rel=1e-3)


def test_images_are_labelled_together_better_than_by_zero_shot() -> None:
    pack = superclass_pack(3, images=600)
    labels, directions = together(pack, np.arange(600))
    zero_shot = (unit(pack.clip[:, 0]) @ unit(pack.text).T).argmax(axis=1)
    assert (labels.argmax(axis=1) == pack.labels).mean() > (zero_shot == pack.labels).mean() + 0.15
    np.testing.assert_allclose(labels.sum(axis=1), 1, atol=1e-5)
    assert directions > 50


def test_labels_play_no_part_and_repetition_none_either(pack: FeaturePack) -> None:
    assert pack.labels is not None
    run = score(Tda(), pack, order="shuffle")
    blind = score(Tda(), replace(pack, labels=None), order="shuffle")
    assert run.temperature == blind.temperature == run.report.metrics["temperature"]
    stream = make_stream("given", pack)
    twice = replace(stream, order=np.repeat(stream.order, 3))
    scores = run.scores[np.argsort(run.order)]
    assert stream_temperature(np.repeat(scores, 3, axis=0), twice) == pytest.approx(stream_temperature(scores, stream))


def test_few_directions_leave_scores_as_they_are() -> None:
    rng = np.random.default_rng(2)
    labels = rng.integers(5, size=300)
    flat = np.zeros((300, 40), np.float32)  # images of a class differ in three directions
    flat[:, :3] = rng.standard_normal((300, 3))
    flat[np.arange(300), 10 + labels] = 2
    text = np.eye(40, dtype=np.float32)[10:15]
    pack = FeaturePack("flat", tuple("abcde"), unit(flat)[:, None], text, labels=labels, logit_scale=3.0)
    run = score(ZeroShot(), pack)
    assert run.temperature == 1.0
    assert run.report.metrics["ece_fitted"] == pytest.approx(run.report.metrics["ece"], abs=1e-6)


def test_of_many_images_some_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    pack = superclass_pack(3, images=1600, views=1)
    whole = score(ZeroShot(), pack)
    monkeypatch.setattr(calibration, "MOST", 800)
    drawn = score(ZeroShot(), pack)
    assert drawn.temperature != whole.temperature
    assert drawn.temperature == pytest.approx(whole.temperature, rel=0.1)


def test_it_is_left_out_if_not_asked_for(pack: FeaturePack) -> None:
    metrics = score(ZeroShot(), pack, calibrate=False).report.metrics
    assert "ece" in metrics
    assert "ece_fitted" not in metrics


@pytest.mark.parametrize("name", ["zero_shot", "tda", "dmn", "cosmic", "bayes_means"])
@pytest.mark.parametrize("encoder", ["rn50", "vitb32"])
def test_fitted_probabilities_are_more_honest_on_real_features(shared: Path, name: str, encoder: str) -> None:
    pack = FeaturePack.open(shared / "packs" / f"whurs19-{encoder}")
    metrics = [score(make_method(name), pack, seed=seed).report.metrics for seed in range(3)]
    said = float(np.mean([one["ece"] for one in metrics]))
    assert np.mean([one["ece_fitted"] for one in metrics]) < max(said, 0.015)  # below that there is nothing to mend
