"""t-SNE of feature vectors, by scikit-learn."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cosmic_tta.core.arrays import Array, unit
from cosmic_tta.reporting.plotting.requirements import require

MAX_ROWS = 4000  # more points cannot be told apart, and take minutes
PRINCIPAL_COMPONENTS = 50  # kept before t-SNE looks for neighbours


def tsne(rows: Array, seed: int = 0, perplexity: float = 30.0) -> NDArray[np.float64]:
    """Project unit rows [n, D] to the plane by t-SNE: [n, 2], within -1 to 1.

    Only neighbourhoods have a meaning; distances between far points have none. With few rows the perplexity is
    lowered; up to three rows lie on a line.
    """
    require("sklearn")
    count = len(rows)
    if count < 4:
        return np.stack([np.linspace(-0.5, 0.5, count), np.zeros(count)], axis=1)
    from sklearn.manifold import TSNE

    centred = np.asarray(rows, np.float64) - np.mean(rows, axis=0, dtype=np.float64)
    # On unit rows the Euclidean distance ranks as the cosine does. PCA keeps it and removes noise.
    axes = np.linalg.svd(centred, full_matrices=False)[2][:PRINCIPAL_COMPONENTS]
    reduced = centred @ axes.T
    start = 1e-4 * reduced[:, :2] / (reduced[:, 0].std() or 1.0)
    if start.shape[1] < 2:
        start = np.pad(start, ((0, 0), (0, 1)))
    model = TSNE(init=start, perplexity=min(perplexity, (count - 1) / 3), random_state=seed, learning_rate="auto")
    points = np.asarray(model.fit_transform(reduced), np.float64)
    points -= points.mean(axis=0)
    scaled: NDArray[np.float64] = points / (np.abs(points).max() or 1.0)
    return scaled


def centre_rows(rows: Array) -> Array:
    """Subtract the mean from rows and scale them to unit length; up to two rows stay as they are.

    CLIP keeps texts and images apart. Centring each kind on its own mean lets both appear in one projection.
    """
    return unit(rows - rows.mean(axis=0)) if len(rows) > 2 else rows
