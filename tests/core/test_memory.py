from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cosmic_tta import METHODS, FeatureMemory, make_method
from cosmic_tta.features.pack import FeaturePack


def test_a_memory_gives_the_features_of_a_class() -> None:
    memory = FeatureMemory("m", np.eye(3, dtype=np.float32), np.array([1, 0, 1]), None, 2)
    assert memory.of_class(1).argmax(axis=1).tolist() == [0, 2]
    assert memory.of_class(5).shape == (0, 3)
    assert len(memory.clique_nodes) == len(memory.clique_sizes) == 0


NAMES = {
    "zero_shot": [],
    "tda": ["positive", "negative"],
    "dmn": ["memory"],
    "cosmic": ["css", "afv"],
    "bayes_means": ["clip", "aux"],
    "tip_adapter": ["support"],
}


@pytest.mark.parametrize("name", NAMES)
def test_every_method_reports_what_it_keeps(name: str, pack: FeaturePack) -> None:
    given: dict[str, Any] = {"support": pack.support()} if "support" in METHODS[name].needs else {}
    method = make_method(name, **given)
    state = method.init(pack.task())
    assert [memory.name for memory in method.memories(state)] == NAMES[name]
    method.steps(state, [pack.sample(index) for index in range(60)])
    memories = method.memories(state)
    assert [memory.name for memory in memories] == NAMES[name]
    for memory in memories:
        counts = np.bincount(memory.classes, minlength=state.task.classes)
        assert len(memory.features) == counts.sum() > 0
        if name not in ("bayes_means", "tip_adapter"):
            assert counts.max() <= memory.capacity
            assert memory.samples is not None
            plain = np.stack([pack.sample(int(index)).plain for index in memory.samples])
            if memory.features.shape[1] == plain.shape[1]:
                assert (memory.features * plain).sum(axis=1).min() > 0.5  # the views of that very image
        assert bool(len(memory.clique_sizes)) == (name == "cosmic")
        assert len(memory.clique_nodes) == memory.clique_sizes.sum()


def test_a_stream_without_auxiliary_features_has_no_memory_of_them(pack: FeaturePack) -> None:
    from dataclasses import replace

    for name, names in (("cosmic", ["css"]), ("bayes_means", ["clip"])):
        method = make_method(name)
        state = method.init(replace(pack, aux=None).task())
        assert [memory.name for memory in method.memories(state)] == names
