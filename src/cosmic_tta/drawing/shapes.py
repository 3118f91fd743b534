"""Where nodes lie and what surrounds them: plain geometry, whoever draws it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Points = NDArray[np.float64]  # [n, 2]
CORNERS = 24  # of a circle


def hull(points: Points) -> Points:
    """Return the corners of the convex hull, counter-clockwise (Andrew's chain).

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
            while len(side) > 1 and _turn(side[-2], side[-1], point) <= 0:
                side.pop()
            side.append(point)
        sides.append(side[:-1])
    return np.array(sides[0] + sides[1])


def _turn(a: NDArray[np.float64], b: NDArray[np.float64], c: NDArray[np.float64]) -> float:
    return float((b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0]))


def surround(points: Points, room: float) -> Points:
    """Return a round outline at a distance from all points, closed."""
    turns = np.linspace(0, 2 * np.pi, CORNERS, endpoint=False)
    circle = room * np.stack([np.cos(turns), np.sin(turns)], axis=1)
    outline = hull((points[:, None] + circle).reshape(-1, 2))
    return np.concatenate([outline, outline[:1]])


def spring_layout(nodes: int, links: Sequence[tuple[int, int]], *, seed: int = 0, rounds: int = 300) -> Points:
    """Place nodes so that linked ones lie near each other and none on another (after Fruchterman and Reingold, 1991).

    All repel, links pull, and the middle pulls a little, so that what is not linked stays in sight. O(rounds · n²).
    """
    if nodes < 2:
        return np.zeros((nodes, 2))
    rng = np.random.default_rng(seed)
    turns = 2 * np.pi * rng.permutation(nodes) / nodes
    places = np.stack([np.cos(turns), np.sin(turns)], axis=1) + 0.01 * rng.standard_normal((nodes, 2))
    near = np.zeros((nodes, nodes))
    for a, b in links:
        near[a, b] = near[b, a] = 1
    length = 1.6 / np.sqrt(nodes)
    # A link of well-connected nodes pulls less: else a dense part would collapse.
    degree = np.maximum(near.sum(axis=1), 1)
    near /= np.sqrt(np.sqrt(degree[:, None] * degree[None]))
    for heat in np.linspace(0.15, 0.002, rounds):
        apart = places[:, None] - places[None]
        distance = np.maximum(np.linalg.norm(apart, axis=2), 1e-3)
        force = length**2 / distance**2 - near * distance / length
        move = (apart * force[:, :, None]).sum(axis=1) - 0.6 * places
        size = np.maximum(np.linalg.norm(move, axis=1, keepdims=True), 1e-9)
        places = places + move / size * np.minimum(size, heat)
    spread: Points = (places - places.mean(axis=0)) / max(1e-9, float(np.abs(places - places.mean(axis=0)).max()))
    return spread


def part_labels(heights: Sequence[float], gap: float) -> list[float]:
    """Move labels apart, up and down as little as needed, so that none is nearer to another than the gap.

    >>> part_labels([1.0, 1.0, 5.0], 1.0)
    [0.5, 1.5, 5.0]
    """
    order = np.argsort(heights, kind="stable")
    # Less its own part of the gaps, a label may not lie below the one before it: isotonic regression, by pooling.
    pools: list[tuple[float, int]] = []  # mean, count
    for step, place in enumerate(order):
        mean, count = float(heights[int(place)]) - step * gap, 1
        while pools and pools[-1][0] > mean:
            other, more = pools.pop()
            mean, count = (mean * count + other * more) / (count + more), count + more
        pools.append((mean, count))
    flat = [mean for mean, count in pools for _ in range(count)]
    result = [0.0] * len(flat)
    for step, place in enumerate(order):
        result[int(place)] = flat[step] + step * gap
    return result
