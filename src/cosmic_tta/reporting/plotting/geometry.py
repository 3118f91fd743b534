"""Geometry of charts: convex hulls, outlines, graph layout, and labels that do not overlap."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Points = NDArray[np.float64]  # [n, 2]
CIRCLE_CORNERS = 24


def hull(points: Points) -> Points:
    """Return the corners of the convex hull, counter-clockwise (Andrew's monotone chain).

    >>> hull(np.array([[0.0, 0], [2, 0], [1, 1], [2, 2], [0, 2]])).tolist()
    [[0.0, 0.0], [2.0, 0.0], [2.0, 2.0], [0.0, 2.0]]
    """
    ordered = np.unique(points, axis=0)
    if len(ordered) < 3:
        return ordered
    sides = []
    for chain in (ordered, ordered[::-1]):
        side: list[NDArray[np.float64]] = []
        for point in chain:
            while len(side) > 1 and _cross_product(side[-2], side[-1], point) <= 0:
                side.pop()
            side.append(point)
        sides.append(side[:-1])
    return np.array(sides[0] + sides[1])


def _cross_product(a: NDArray[np.float64], b: NDArray[np.float64], c: NDArray[np.float64]) -> float:
    """Return the cross product of ab and ac: positive if c lies to the left of the line from a to b."""
    return float((b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0]))


def rounded_hull(points: Points, margin: float) -> Points:
    """Return a closed outline with round corners that keeps a margin from all points."""
    angles = np.linspace(0, 2 * np.pi, CIRCLE_CORNERS, endpoint=False)
    circle = margin * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    outline = hull((points[:, None] + circle).reshape(-1, 2))
    return np.concatenate([outline, outline[:1]])


def spring_layout(nodes: int, links: Sequence[tuple[int, int]], *, seed: int = 0, rounds: int = 300) -> Points:
    """Place nodes so that linked ones are near each other and none overlap (after Fruchterman and Reingold, 1991).

    All nodes repel each other, links attract, and a weak pull to the centre keeps nodes without links in sight.
    O(rounds · n²).
    """
    if nodes < 2:
        return np.zeros((nodes, 2))
    rng = np.random.default_rng(seed)
    angles = 2 * np.pi * rng.permutation(nodes) / nodes
    positions = np.stack([np.cos(angles), np.sin(angles)], axis=1) + 0.01 * rng.standard_normal((nodes, 2))
    attraction = np.zeros((nodes, nodes))
    for a, b in links:
        attraction[a, b] = attraction[b, a] = 1
    length = 1.6 / np.sqrt(nodes)
    # Links of well-connected nodes attract less; otherwise a dense part would collapse.
    degree = np.maximum(attraction.sum(axis=1), 1)
    attraction /= np.sqrt(np.sqrt(degree[:, None] * degree[None]))
    for max_move in np.linspace(0.15, 0.002, rounds):
        offsets = positions[:, None] - positions[None]
        distance = np.maximum(np.linalg.norm(offsets, axis=2), 1e-3)
        force = length**2 / distance**2 - attraction * distance / length
        move = (offsets * force[:, :, None]).sum(axis=1) - 0.6 * positions
        size = np.maximum(np.linalg.norm(move, axis=1, keepdims=True), 1e-9)
        positions = positions + move / size * np.minimum(size, max_move)
    centred = positions - positions.mean(axis=0)
    scaled: Points = centred / max(1e-9, float(np.abs(centred).max()))
    return scaled


def separate_labels(heights: Sequence[float], gap: float) -> list[float]:
    """Move labels up and down as little as possible, so that no two are closer than the gap.

    >>> separate_labels([1.0, 1.0, 5.0], 1.0)
    [0.5, 1.5, 5.0]
    """
    order = np.argsort(heights, kind="stable")
    # Isotonic regression by pooling: without the gaps below it, no label may lie below the previous one.
    pools: list[tuple[float, int]] = []  # mean, count
    for rank, index in enumerate(order):
        mean, count = float(heights[int(index)]) - rank * gap, 1
        while pools and pools[-1][0] > mean:
            other_mean, other_count = pools.pop()
            mean, count = (mean * count + other_mean * other_count) / (count + other_count), count + other_count
        pools.append((mean, count))
    pooled = [mean for mean, count in pools for _ in range(count)]
    result = [0.0] * len(pooled)
    for rank, index in enumerate(order):
        result[int(index)] = pooled[rank] + rank * gap
    return result


def separate_nearby_labels(
    centres: Sequence[tuple[float, float]], x_limits: tuple[float, float], y_limits: tuple[float, float]
) -> list[float]:
    """Return heights of labels at (x, y): those that would overlap are moved up or down."""
    heights = [y for _, y in centres]
    reach, gap = 0.16 * (x_limits[1] - x_limits[0]), 0.034 * (y_limits[1] - y_limits[0])
    for _ in range(4):
        for x, _ in centres:
            near = [index for index, (other_x, _) in enumerate(centres) if abs(other_x - x) < reach]
            for index, moved in zip(near, separate_labels([heights[index] for index in near], gap), strict=True):
                heights[index] = moved
    return heights
