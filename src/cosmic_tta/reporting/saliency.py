"""Saliency maps of an image encoder: from its patch tokens, or from covering patches of the image."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from cosmic_tta.core.arrays import unit
from cosmic_tta.encoders import Encoder
from cosmic_tta.reporting.plotting.palette import SURFACE_SCALE

SaliencyMap = NDArray[np.float64]  # [rows, columns] from 0 to 1
Pixels = NDArray[np.uint8]  # [height, width, 3]
DISPLAY_SIZE = 160  # pixels along an edge of a shown image
OCCLUSION_CELLS = 8  # along an edge of the image


def token_map(encoder: Encoder, pixels: Pixels) -> SaliencyMap:
    """Return how similar each patch token is to the token that summarizes the image, [rows, columns]."""
    tokens = encoder.tokens(pixels[None])
    similarity = np.einsum("rcw,w->rc", tokens.patches[0], tokens.summary[0], dtype=np.float64)
    return _scale_to_unit_range(similarity)


def occlusion_map(encoder: Encoder, pixels: Pixels, cells: int = OCCLUSION_CELLS) -> SaliencyMap:
    """Return how much the image's feature changes when a patch is covered with the mean colour, [cells, cells].

    The covering patches are two cells wide and overlap; the value of a cell is the mean over the patches that cover
    it. Works with every encoder, at the cost of encoding about cells² images.
    """
    height, width = pixels.shape[:2]
    rows, columns = (np.linspace(0, edge, cells + 1).astype(int) for edge in (height, width))
    mean = pixels.mean(axis=(0, 1)).astype(np.uint8)
    positions = [(row, column) for row in range(cells - 1) for column in range(cells - 1)]
    covered = np.repeat(pixels[None], len(positions) + 1, axis=0)
    for number, (row, column) in enumerate(positions, start=1):
        covered[number, rows[row] : rows[row + 2], columns[column] : columns[column + 2]] = mean
    features = unit(encoder.encode(covered))
    changes = 1 - features[1:] @ features[0]
    total, count = np.zeros((cells, cells)), np.zeros((cells, cells))
    for (row, column), change in zip(positions, changes, strict=True):
        total[row : row + 2, column : column + 2] += change
        count[row : row + 2, column : column + 2] += 1
    return _scale_to_unit_range(total / count)


def _scale_to_unit_range(values: NDArray[np.floating]) -> SaliencyMap:
    low, high = float(values.min()), float(values.max())
    return np.zeros(values.shape) if high <= low else (np.asarray(values, np.float64) - low) / (high - low)


def resize_for_display(pixels: Pixels, edge: int = DISPLAY_SIZE) -> Pixels:
    """Return an image at the size at which maps are shown."""
    return np.asarray(Image.fromarray(pixels).resize((edge, edge), Image.Resampling.BICUBIC))


def overlay_map(pixels: Pixels, saliency: SaliencyMap, edge: int = DISPLAY_SIZE) -> Pixels:
    """Blend a map in colour over the image in grey; bright colours are high values."""
    values = Image.fromarray(np.asarray(255 * saliency, np.uint8)).resize((edge, edge), Image.Resampling.BICUBIC)
    level = np.asarray(values, np.float64) / 255
    stops = np.array(
        [[int(colour[digit : digit + 2], 16) for digit in (1, 3, 5)] for colour in SURFACE_SCALE], np.float64
    )
    position = level * (len(stops) - 1)
    low = np.minimum(position.astype(int), len(stops) - 2)
    fraction = (position - low)[:, :, None]
    colours = stops[low] * (1 - fraction) + stops[low + 1] * fraction
    grey = resize_for_display(pixels, edge).astype(np.float64).mean(axis=2, keepdims=True)
    blended: Pixels = np.rint(0.45 * grey + 0.55 * colours).astype(np.uint8)
    return blended
