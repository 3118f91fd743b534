from __future__ import annotations

import pytest

from cosmic_tta import METHODS
from cosmic_tta.core.errors import UnknownNameError
from cosmic_tta.evaluation.method_factory import factory_of, with_random_tower
from cosmic_tta.features.pack import FeaturePack
from cosmic_tta.features.synthetic import superclass_pack


@pytest.fixture(scope="module")
def small() -> FeaturePack:
    return superclass_pack(5, images=12, dim=24, aux_dim=8, views=2, superclasses=2, members=3)


@pytest.mark.parametrize("name", [name for name, kind in METHODS.items() if "tower" not in kind.needs])
def test_a_method_gets_what_it_needs(name: str, small: FeaturePack) -> None:
    make = factory_of(name)
    method = make(small)
    state = method.init(small.task())
    assert method.step(state, small.sample(0)).scores.shape == (6,)
    assert make(small) == method or "checkpoint" in method.needs or "support" in method.needs


def test_a_checkpoint_is_trained_once_per_pack(small: FeaturePack) -> None:
    make = factory_of("tip_adapter_f")
    assert make(small).checkpoint is make(small).checkpoint  # type: ignore[attr-defined]


def test_parameters_differ_from_the_preset_and_unknown_names_are_refused(small: FeaturePack) -> None:
    assert factory_of("cosmic@official", shots=3)(small).shots == 3  # type: ignore[attr-defined]
    with pytest.raises(UnknownNameError, match="did you mean 'cosmic'"):
        factory_of("cosmik")


@pytest.mark.torch
def test_a_random_tower_is_the_same_for_the_same_classes(small: FeaturePack) -> None:
    pytest.importorskip("torch")
    assert with_random_tower(small).tower is with_random_tower(small).tower
    method = factory_of("tpt")(small)
    assert method.step(method.init(with_random_tower(small).task()), small.sample(0)).label in range(6)
