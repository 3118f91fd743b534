from __future__ import annotations

import numpy as np
import pytest

from cosmic_tta.features.pack import FeaturePack
from cosmic_tta.reporting.paper.affinity import class_similarities, confusable_classes, separation


def test_the_better_space_separates_more() -> None:
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1, 2], 20)
    means = rng.standard_normal((3, 8))
    found = []
    for noise in (0.2, 3.0):
        rows = means[labels] + noise * rng.standard_normal((60, 8))
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        found.append(separation((rows @ rows.T).astype(np.float32), labels))
    (within, between, separated, nearest), noisy = found
    assert within > between
    assert separated > 99 > noisy[2] > 40
    assert nearest > noisy[3]


def test_similarities_leave_an_image_with_itself_out() -> None:
    similarities = np.array([[1, 0.5, 0.1], [0.5, 1, 0.3], [0.1, 0.3, 1]], np.float32)
    cells = class_similarities(similarities, np.array([0, 0, 1]), [0, 1])
    assert cells[0] == pytest.approx([0.5, 0.2])
    assert np.isnan(cells[1, 1])


def test_confusable_classes_begin_with_the_worst_pair() -> None:
    text = np.eye(4, dtype=np.float32)
    clip = text[[0, 1, 3, 2, 3, 3]][:, None]  # class 2 is taken for 3 half of the time
    pack = FeaturePack("a", tuple("abcd"), clip, text, labels=np.array([0, 1, 2, 2, 3, 3]))
    assert sorted(confusable_classes(pack, 2)) == [2, 3]
