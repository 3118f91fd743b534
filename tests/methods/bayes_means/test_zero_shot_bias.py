from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cosmic_tta.core.arrays import Array, as_float32, softmax, unit
from cosmic_tta.core.errors import SnapshotError
from cosmic_tta.methods.bayes_means.zero_shot_bias import (
    BELIEVED,
    BOUND,
    CHANCE,
    HEARING,
    PRIOR,
    PROVEN,
    BiasTest,
    ZeroShotBias,
    _directions,
)
from cosmic_tta.methods.components.gaussian_classes import GaussianClassModel

MODEL = GaussianClassModel(10.0, 5.0, True)
CLASSES, DIM = 4, 24


def stream(seed: int, shares: list[float], favoured: float, images: int = 400) -> list[tuple[Array, Array]]:
    """Images of classes with these shares: log-probabilities of a zero-shot that favours the first, and features."""
    rng = np.random.default_rng(seed)
    centres = unit(as_float32(rng.standard_normal((CLASSES, DIM))))
    bias = np.array([favoured, 0, 0, 0])
    made = []
    for label in rng.choice(CLASSES, images, p=shares):
        logits = 1.5 * np.eye(CLASSES)[label] + rng.standard_normal(CLASSES) + bias
        feature = unit(as_float32(centres[label] + 0.15 * rng.standard_normal(DIM)))
        made.append((as_float32(np.log(softmax(as_float32(logits)) + 1e-30)), feature))
    return made


def heard(samples: list[tuple[Array, Array]], *, aux: bool = False) -> ZeroShotBias:
    favour = ZeroShotBias.empty(CLASSES, aux=aux)
    for zero_shot, feature in samples:
        favour.hear(zero_shot, (feature, feature) if aux else (feature,), MODEL)
    return favour


def noisy(samples: list[tuple[Array, Array]]) -> list[tuple[Array, Array]]:
    """The same images with features that say nothing."""
    rng = np.random.default_rng(1)
    return [(zero_shot, unit(as_float32(rng.standard_normal(DIM)))) for zero_shot, _ in samples]


EVEN, UNEVEN = [0.25] * 4, [0.7, 0.1, 0.1, 0.1]


@pytest.mark.parametrize("aux", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_a_shift_is_believed_and_an_uneven_stream_is_not(seed: int, aux: bool) -> None:
    """The first class is zero-shot's favourite in both; once without reason, once because it is frequent."""
    shifted, uneven = heard(stream(seed, EVEN, 2.0), aux=aux), heard(stream(seed, UNEVEN, 0.0), aux=aux)
    assert shifted.offset.argmax() == uneven.offset.argmax() == 0
    assert shifted.shift() == 1
    assert uneven.shift() == 0


def test_the_offset_evens_zero_shots_classes() -> None:
    samples = stream(0, EVEN, 2.0, 1500)
    favour = heard(samples)
    logits = np.stack([zero_shot for zero_shot, _ in samples])
    before, after = softmax(logits).mean(axis=0), softmax(logits - favour.offset).mean(axis=0)
    assert before[0] > 0.45
    assert np.allclose(after, 0.25, atol=0.05)


def test_few_samples_hardly_move_the_offset_and_say_nothing() -> None:
    favour = heard(stream(0, EVEN, 2.0, HEARING))
    assert np.abs(favour.offset).max() < 2
    assert favour.clip.pull == favour.clip.told == favour.clip.scatter == 0
    assert favour.shift() == 0
    one = heard(stream(0, EVEN, 2.0, 1))
    assert np.abs(one.offset).max() <= 1 / PRIOR


def test_useless_features_say_nothing() -> None:
    favour = heard(noisy(stream(0, EVEN, 2.0)))
    assert abs(favour.clip.errors()) < BELIEVED[0]
    assert favour.shift() == 0


def test_more_evidence_lets_more_of_an_offset_be_taken_off() -> None:
    favour = ZeroShotBias.empty(3, aux=False)
    favour.offset = as_float32([4, 0.5, -4.5])
    favour.clip.scatter = 1 - CHANCE
    taken = []
    for errors in (-9, 0, PROVEN, PROVEN + 1, PROVEN + 9):
        favour.clip.pull = errors
        taken.append(favour.bounded().tolist())
    assert taken[0] == taken[1] == taken[2] == [BOUND, 0.5, -BOUND]
    assert taken[3:] == [[BOUND + 1, 0.5, -BOUND - 1], [4, 0.5, -4.5]]


def test_a_witness_tells_how_much_of_a_class_it_knows() -> None:
    favour = ZeroShotBias.empty(10, aux=True)
    assert favour.aux is not None
    assert favour.known() == 0.5
    assert ZeroShotBias.empty(10, aux=False).known() == 0.5
    favour.number = 600
    favour.aux.told = float((0.3 * 600 - 0.5 * HEARING) * np.log(10))
    assert favour.known() == pytest.approx(0.3)
    favour.aux.told = -1e6
    assert favour.known() == 0.05
    favour.aux.told = 1e6
    assert favour.known() == 1
    assert heard(stream(0, EVEN, 0.0), aux=True).known() > 0.4
    assert heard(noisy(stream(0, EVEN, 0.0)), aux=True).known() < 0.2


def test_evidence_beyond_all_bounds_is_borne() -> None:
    favour = ZeroShotBias.empty(2, aux=False)
    sure = np.array([0, -80], np.float32)
    x = np.eye(1, DIM, dtype=np.float32)[0]
    for _ in range(3 * HEARING):
        favour.hear(sure, (x,), GaussianClassModel(1e6, 5.0, True))
    assert np.isfinite(favour.offset).all()
    assert np.isfinite([favour.clip.told, favour.clip.pull, favour.clip.scatter, favour.shift()]).all()


def test_it_is_carried_over_to_other_classes() -> None:
    favour = heard(stream(0, EVEN, 2.0), aux=True)
    other = favour.remapped(np.array([2, -1, 0]))
    assert other.aux is not None
    assert other.offset.tolist() == [favour.offset[2], 0, favour.offset[0]]
    assert other.curve.tolist() == [favour.curve[2], 3 * PRIOR, favour.curve[0]]
    assert np.array_equal(
        other.clip.sums, np.stack([favour.clip.sums[2], 0 * favour.clip.sums[0], favour.clip.sums[0]])
    )
    assert other.aux.errors() == favour.clip.errors()
    other.clip.total += 1  # in arrays of its own
    assert not np.array_equal(other.clip.total, favour.clip.total)


def test_what_cannot_be_is_refused() -> None:
    ZeroShotBias.empty(3, aux=True).validate()
    with pytest.raises(SnapshotError, match="a shift that cannot be"):
        replace(ZeroShotBias.empty(3, aux=False), curve=np.zeros(3, np.float32)).validate()
    with pytest.raises(SnapshotError, match="a witness that cannot be"):
        replace(BiasTest.empty(3), scatter=-1.0).validate()


def test_directions_are_the_same_everywhere() -> None:
    """Replays depend on them to the bit: whoever changes them must notice."""
    signs = _directions(192)
    assert signs.shape == (192, 64)
    assert set(np.unique(signs)) == {-1.0, 1.0}
    assert abs(float(signs.mean())) < 0.03
    assert int(signs[0] @ (1 + np.arange(64))) == 276
    assert np.abs(signs @ signs.T / 64 - np.eye(192)).max() < 0.6
