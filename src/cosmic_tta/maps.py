"""Where an encoder looks: maps over a picture, from its patch tokens or from what covering a patch changes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from cosmic_tta.drawing.palette import SURFACE
from cosmic_tta.encoders import Encoder
from cosmic_tta.ops import unit

Map = NDArray[np.float64]  # [rows, columns] from 0 to 1
Pixels = NDArray[np.uint8]  # [height, width, 3]
EDGE = 160  # of a picture that is shown
CELLS = 8  # places of the cover along an edge


def token_map(encoder: Encoder, pixels: Pixels) -> Map:
    """Return how like the picture's summary each patch's token is, [rows, columns]."""
    told = encoder.tokens(pixels[None])
    near = np.einsum("rcw,w->rc", told.patches[0], told.summary[0], dtype=np.float64)
    return _spread(near)


def occlusion_map(encoder: Encoder, pixels: Pixels, cells: int = CELLS) -> Map:
    """Return how far the feature moves when a patch is covered with the picture's mean colour, [cells, cells].

    Covers are two cells wide and overlap; a cell's value is the mean of those over it. It works with any encoder and
    needs cells² pictures encoded.
    """
    height, width = pixels.shape[:2]
    rows, columns = (np.linspace(0, edge, cells + 1).astype(int) for edge in (height, width))
    mean = pixels.mean(axis=(0, 1)).astype(np.uint8)
    places = [(row, column) for row in range(cells - 1) for column in range(cells - 1)]
    covered = np.repeat(pixels[None], len(places) + 1, axis=0)
    for number, (row, column) in enumerate(places, start=1):
        covered[number, rows[row] : rows[row + 2], columns[column] : columns[column + 2]] = mean
    features = unit(encoder.encode(covered))
    moved = 1 - features[1:] @ features[0]
    total, count = np.zeros((cells, cells)), np.zeros((cells, cells))
    for (row, column), change in zip(places, moved, strict=True):
        total[row : row + 2, column : column + 2] += change
        count[row : row + 2, column : column + 2] += 1
    return _spread(total / count)


def _spread(values: NDArray[np.floating]) -> Map:
    low, high = float(values.min()), float(values.max())
    return np.zeros(values.shape) if high <= low else (np.asarray(values, np.float64) - low) / (high - low)


def shown(pixels: Pixels, edge: int = EDGE) -> Pixels:
    """Return a picture at the size at which maps are shown."""
    return np.asarray(Image.fromarray(pixels).resize((edge, edge), Image.Resampling.BICUBIC))


def overlaid(pixels: Pixels, found: Map, edge: int = EDGE) -> Pixels:
    """Lay a map over a picture: bright where it is high, the picture in grey below."""
    values = Image.fromarray(np.asarray(255 * found, np.uint8)).resize((edge, edge), Image.Resampling.BICUBIC)
    level = np.asarray(values, np.float64)[:, :, None] / 255
    stops = np.array([[int(colour[at : at + 2], 16) for at in (1, 3, 5)] for colour in SURFACE], np.float64)
    at = level[:, :, 0] * (len(stops) - 1)
    low = np.minimum(at.astype(int), len(stops) - 2)
    part = (at - low)[:, :, None]
    colours = stops[low] * (1 - part) + stops[low + 1] * part
    grey = shown(pixels, edge).astype(np.float64).mean(axis=2, keepdims=True)
    mixed: Pixels = np.rint(0.45 * grey + 0.55 * colours).astype(np.uint8)
    return mixed
