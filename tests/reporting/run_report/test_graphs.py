from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from cosmic_tta.evaluation.run_folder import SavedMemory, SavedRun
from cosmic_tta.reporting.run_report.graphs import (
    cache_chart,
    class_centres,
    classes_chart,
    graph_chart,
    graph_nodes,
    hyper_class_centres,
)


@pytest.fixture(scope="module")
def memory() -> SavedMemory:
    """Four classes, the last without samples, and the cliques {0, 1, 2} and {2, 3}."""
    slots = np.eye(3, dtype=np.float32)[[0, 0, 1, 2]]
    nodes, sizes = np.array([0, 1, 2, 2, 3]), np.array([3, 2])
    return SavedMemory("afv", slots, np.array([0, 0, 1, 2]), np.arange(4), nodes, sizes)


def test_class_centres_are_means_at_unit_length(memory: SavedMemory) -> None:
    centres = class_centres(memory, 4)
    assert np.array_equal(centres[:3], np.eye(3))
    assert not centres[3].any()


def test_hyper_classes_need_samples_of_all_their_classes(memory: SavedMemory) -> None:
    nodes, names, texts = graph_nodes("abcd", np.zeros((4, 3), np.float32), memory)
    assert (names, texts) == (list("abcd"), 0)
    centres, cliques = hyper_class_centres(nodes, memory)
    assert [clique.tolist() for clique in cliques] == [[0, 1, 2]]
    np.testing.assert_allclose(centres, [np.full(3, 3**-0.5)], rtol=1e-6)


def test_the_graph_links_the_members_of_every_clique(cosmic_run: SavedRun) -> None:
    for memory in cosmic_run.memories:
        chart = graph_chart(cosmic_run, memory)
        expected = {pair for clique in memory.cliques for pair in combinations(sorted(clique.tolist()), 2)}
        assert len(chart.links) == len(expected)
        shown = sum(len(series.x) for series in chart.series)
        assert max((max(link) for link in chart.links), default=0) < shown
        assert f"{len(memory.sizes)} maximal cliques" in chart.note


def test_texts_are_nodes_of_the_clip_space_alone(cosmic_run: SavedRun) -> None:
    css, afv = cosmic_run.memories
    assert "texts" in [series.name for series in classes_chart(cosmic_run, css).series]
    assert "texts" not in [series.name for series in classes_chart(cosmic_run, afv).series]


def test_a_cache_has_one_point_per_image(cosmic_run: SavedRun) -> None:
    memory = cosmic_run.memories[0]
    chart = cache_chart("pack", cosmic_run.class_names, memory)
    assert sum(len(series.x) for series in chart.series) == len(memory.slots)
    assert [series.name for series in chart.series] == [cosmic_run.class_names[k] for k in np.unique(memory.classes)]
