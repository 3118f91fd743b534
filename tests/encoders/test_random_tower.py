from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch")
pytestmark = pytest.mark.torch

from cosmic_tta.encoders.random_tower import random_tower  # noqa: E402

CLASSES = ("cat", "dog", "polar bear")


def test_the_weights_and_words_are_always_the_same() -> None:
    one, two = random_tower(CLASSES, 16), random_tower(CLASSES, 16)
    context = one.opening("a photo of a")
    np.testing.assert_array_equal(one.texts(context), two.texts(context))
    assert one.fingerprint == two.fingerprint
    assert one.fingerprint != random_tower(CLASSES, 16, layers=2).fingerprint


def test_it_has_the_size_that_was_asked_for() -> None:
    tower = random_tower(CLASSES, 16, width=128, layers=2)
    texts = tower.texts(tower.opening("a photo of a"))
    assert (tower.width, texts.shape) == (128, (3, 16))
    np.testing.assert_allclose(np.linalg.norm(texts, axis=1), 1, atol=1e-5)
    assert (texts @ texts.T)[0, 1] < 0.9999  # classes differ
