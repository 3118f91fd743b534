from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from cosmic_tta.core.errors import InputError
from cosmic_tta.features.class_texts import text_features


class FakeTextEncoder:
    """A text tower whose features tell the sentences apart."""

    def __init__(self, dim: int = 6) -> None:
        self.dim, self.asked = dim, [0]

    def encode_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.asked.append(len(texts))
        rows = [np.random.default_rng(list(text.encode())).standard_normal(self.dim) for text in texts]
        return np.array([row / np.linalg.norm(row) for row in rows], np.float32)


@pytest.mark.parametrize("batch", [1, 3, 100])
def test_text_features_are_unit_means_of_unit_rows(batch: int) -> None:
    tower, texts = FakeTextEncoder(), [["a", "b", "c"], ["d"], ["e", "f"]]
    features = text_features(tower, texts, batch=batch)
    assert features.dtype == np.float32
    assert features.shape == (3, 6)
    assert max(tower.asked) <= batch
    for row, own in zip(features, texts, strict=True):
        mean = FakeTextEncoder().encode_texts(own).astype(np.float64).mean(axis=0)
        np.testing.assert_allclose(row, mean / np.linalg.norm(mean), atol=1e-6)


class Odd:
    def __init__(self, rows: object) -> None:
        self.rows = rows

    def encode_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return np.array(self.rows, np.float32)


def test_what_cannot_become_features() -> None:
    for texts in ([], [["a"], []], ["a"], "a"):
        with pytest.raises(InputError, match="at least one class, each with at least one sentence"):
            text_features(FakeTextEncoder(), texts)
    with pytest.raises(InputError, match=r"gave an array \[1, 2\] for 2 sentences"):
        text_features(Odd([[1, 0]]), [["a", "b"]])
    with pytest.raises(InputError, match="class 0 have no mean direction"):
        text_features(Odd([[1, 0], [-1, 0]]), [["a", "b"]])
    with pytest.raises(InputError, match="class 1 have no mean direction"):
        text_features(Odd([[1, 0], [np.nan, 0]]), [["a"], ["b"]])
