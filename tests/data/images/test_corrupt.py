from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from PIL import Image

from cosmic_tta.core.errors import ParameterError, UnknownNameError
from cosmic_tta.data.images.corrupt import CORRUPTIONS, SEVERITIES, Corruption
from cosmic_tta.encoders.onnx_samples import sample_images
from tests.support.tiny import image

pytestmark = pytest.mark.pathless


def change(kind: str, severity: int, image: Image.Image, key: str = "a") -> float:
    changed = np.asarray(Corruption(kind, severity)(image, key), np.float64)
    return float(np.sqrt(((changed - np.asarray(image)) ** 2).mean()))


@pytest.mark.parametrize("kind", CORRUPTIONS)
@pytest.mark.parametrize("size", [(32, 32), (300, 200)])
def test_a_higher_severity_changes_more(kind: str, size: tuple[int, int]) -> None:
    images = [image.resize(size) for image in sample_images(6)]
    changes = [np.mean([change(kind, severity, image) for image in images]) for severity in SEVERITIES]
    assert changes[0] > 1
    assert all(more > less for less, more in pairwise(changes))


@pytest.mark.parametrize("kind", CORRUPTIONS)
def test_a_shift_is_the_same_for_the_same_image(kind: str) -> None:
    first, again = (Corruption(kind, 4, seed=2)(image(1), "cat/1.jpg") for _ in range(2))
    np.testing.assert_array_equal(np.asarray(first), np.asarray(again))
    assert (first.mode, first.size) == ("RGB", image(1).size)


@pytest.mark.parametrize("kind", ["noise", "haze"])
def test_random_numbers_depend_on_key_and_seed(kind: str) -> None:
    plain = np.asarray(Corruption(kind)(image(1), "a"))
    assert (plain != np.asarray(Corruption(kind)(image(1), "b"))).any()
    assert (plain != np.asarray(Corruption(kind, seed=1)(image(1), "a"))).any()


@pytest.mark.parametrize("kind", CORRUPTIONS)
@pytest.mark.parametrize("size", [(1, 1), (1, 9), (9, 1)])
def test_tiny_images_keep_their_size(kind: str, size: tuple[int, int]) -> None:
    assert Corruption(kind, 5)(Image.new("RGB", size), "a").size == size


def test_wrong_settings() -> None:
    with pytest.raises(UnknownNameError, match="unknown corruption 'nose': did you mean 'noise'"):
        Corruption("nose")
    with pytest.raises(ParameterError, match="severity must be 1 to 5; given 6"):
        Corruption("noise", 6)
