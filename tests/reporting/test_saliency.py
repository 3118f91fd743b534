from __future__ import annotations

import numpy as np
import pytest

from cosmic_tta.encoders import Encoder, make_encoder
from cosmic_tta.reporting.saliency import occlusion_map, overlay_map, resize_for_display, token_map


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    return make_encoder("mini:dino", kind="image")


@pytest.fixture
def pixels() -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    """A grey image with noise in one corner."""
    image = np.full((32, 32, 3), 120, np.uint8)
    image[2:10, 2:10] = np.random.default_rng(0).integers(256, size=(8, 8, 3), dtype=np.uint8)
    return image


def test_an_occlusion_map_is_high_where_the_image_has_content(
    encoder: Encoder, pixels: np.ndarray[tuple[int, ...], np.dtype[np.uint8]]
) -> None:
    saliency = occlusion_map(encoder, pixels)
    assert (saliency.min(), saliency.max()) == (0, 1)
    assert saliency[:4, :4].mean() > 3 * saliency[4:, 4:].mean()


def test_a_token_map_has_one_value_per_patch(
    encoder: Encoder, pixels: np.ndarray[tuple[int, ...], np.dtype[np.uint8]]
) -> None:
    saliency = token_map(encoder, pixels)
    assert saliency.shape == (4, 4)
    assert (saliency.min(), saliency.max()) == (0, 1)


def test_a_map_is_blended_over_the_image(pixels: np.ndarray[tuple[int, ...], np.dtype[np.uint8]]) -> None:
    saliency = np.zeros((4, 4))
    saliency[:, 2:] = 1
    blended = overlay_map(pixels, saliency, 40)
    assert blended.shape == (40, 40, 3)
    assert blended[:, 30:].mean() > blended[:, :10].mean()
    assert resize_for_display(pixels, 40).shape == (40, 40, 3)
