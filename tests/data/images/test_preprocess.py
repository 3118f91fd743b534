from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from PIL import Image

from cosmic_tta.data.images.preprocess import Preprocessing
from tests.support.tiny import image


def test_settings_survive_json() -> None:
    made = Preprocessing((8, 6), (9, 7), resample="nearest", middle="round")
    assert Preprocessing.from_dict(json.loads(json.dumps(made.to_dict()))) == made
    wrong: dict[str, Any] = {"resample": "box", "size": [8], "resize": 0, "std": [1, 0, 1], "middle": "left"}
    for name, value in wrong.items():
        with pytest.raises(ValueError, match=" must be "):
            Preprocessing.from_dict({**made.to_dict(), name: value})


def test_an_image_is_resized_by_its_shorter_edge_and_cropped_in_the_middle() -> None:
    pixels = np.zeros((20, 60, 3), np.uint8)
    pixels[:, 20:40] = 255
    middle = Preprocessing((20, 20), 20, resample="nearest").pixels(Image.fromarray(pixels))
    assert middle.shape == (20, 20, 3)
    assert middle.min() == 255
    squashed = Preprocessing((20, 20), (20, 20), resample="nearest").pixels(Image.fromarray(pixels))
    assert squashed.mean() == pytest.approx(255 / 3, abs=15)


def test_the_offset_of_the_crop_is_rounded_as_told() -> None:
    wide = image(1, (35, 32))
    floor, rounded = (Preprocessing((32, 32), 32, middle=middle).pixels(wide) for middle in ("floor", "round"))
    np.testing.assert_array_equal(floor, np.asarray(wide)[:, 1:33])
    np.testing.assert_array_equal(rounded, np.asarray(wide)[:, 2:34])


def test_pixels_are_normalised_per_channel() -> None:
    preprocessing = Preprocessing((2, 2), 2, mean=(0.5, 0.25, 0.0), std=(0.5, 0.25, 1.0))
    normalised = preprocessing.normalise(np.full((1, 2, 2, 3), 255, np.uint8))
    np.testing.assert_allclose(normalised[0, :, 0, 0], [1, 3, 1], atol=1e-6)


def test_a_very_long_image_is_cropped_without_becoming_huge() -> None:
    assert Preprocessing((32, 32), 32).pixels(image(2, (1, 40_000))).shape == (32, 32, 3)
