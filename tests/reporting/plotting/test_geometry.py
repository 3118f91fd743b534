from __future__ import annotations

import numpy as np
import pytest

from cosmic_tta.reporting.plotting.geometry import (
    hull,
    rounded_hull,
    separate_labels,
    separate_nearby_labels,
    spring_layout,
)


def test_a_hull_contains_its_points() -> None:
    points = np.random.default_rng(0).standard_normal((30, 2))
    corners = hull(points)
    edges = np.roll(corners, -1, axis=0) - corners
    for point in points:
        offsets = point - corners
        left_of_edges = edges[:, 0] * offsets[:, 1] - edges[:, 1] * offsets[:, 0] >= -1e-9
        assert left_of_edges.all()


def test_a_rounded_hull_keeps_its_margin_and_is_closed() -> None:
    points = np.random.default_rng(0).standard_normal((3, 2))
    outline = rounded_hull(points[:1], 0.5)
    assert np.allclose(np.linalg.norm(outline - points[0], axis=1), 0.5)
    assert np.array_equal(outline[0], outline[-1])


def test_linked_nodes_are_nearer_than_others() -> None:
    links = [(a, b) for group in (range(5), range(5, 10)) for a in group for b in group if a < b]
    positions = spring_layout(10, links)
    assert np.array_equal(positions, spring_layout(10, links))
    distance = np.linalg.norm(positions[:, None] - positions[None], axis=2)
    same = np.array([[a // 5 == b // 5 for a in range(10)] for b in range(10)])
    assert distance[same].mean() < 0.5 * distance[~same].mean()
    assert np.abs(positions).max() == pytest.approx(1)


def test_labels_are_separated_and_stay_in_order() -> None:
    heights = [3.0, 3.1, 2.9, 9.0]
    moved = separate_labels(heights, 1.0)
    assert np.diff(sorted(moved)).min() >= 1.0 - 1e-9
    assert np.argsort(moved).tolist() == np.argsort(heights).tolist()
    assert moved[3] == 9.0


def test_only_nearby_labels_are_moved() -> None:
    moved = separate_nearby_labels([(0.0, 0.5), (0.01, 0.5), (1.0, 0.5)], (0, 1), (0, 1))
    assert moved[2] == 0.5
    assert moved[1] - moved[0] == pytest.approx(0.034)
