"""High dimensions laid flat, so that people can look at them: t-SNE by scikit-learn."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cosmic_tta.drawing.needs import require
from cosmic_tta.ops import Array, unit

MOST_ROWS = 4000  # beyond, a picture is a cloud and takes minutes
DIMENSIONS = 50  # kept by a rotation before neighbours are sought


def tsne(rows: Array, seed: int = 0, perplexity: float = 30.0) -> NDArray[np.float64]:
    """Place unit rows [n, D] in the plane, near ones near: [n, 2], about from -1 to 1.

    Distances between far points mean nothing. Few rows lower the perplexity; three or less lie on a line.
    """
    require("sklearn")
    count = len(rows)
    if count < 4:
        return np.stack([np.linspace(-0.5, 0.5, count), np.zeros(count)], axis=1)
    from sklearn.manifold import TSNE

    flat = np.asarray(rows, np.float64) - np.mean(rows, axis=0, dtype=np.float64)
    # On unit rows Euclidean distance ranks as the cosine does; a rotation keeps it, and the noise goes.
    axes = np.linalg.svd(flat, full_matrices=False)[2][:DIMENSIONS]
    flat = flat @ axes.T
    start = 1e-4 * flat[:, :2] / (flat[:, 0].std() or 1.0)
    if start.shape[1] < 2:
        start = np.pad(start, ((0, 0), (0, 1)))
    fit = TSNE(init=start, perplexity=min(perplexity, (count - 1) / 3), random_state=seed, learning_rate="auto")
    placed = np.asarray(fit.fit_transform(flat), np.float64)
    placed -= placed.mean(axis=0)
    spread: NDArray[np.float64] = placed / (np.abs(placed).max() or 1.0)
    return spread


def centred(rows: Array) -> Array:
    """Take the mean of a kind from its rows and scale them to length one: texts and pictures lie apart in CLIP."""
    return unit(rows - rows.mean(axis=0)) if len(rows) > 2 else rows
