from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache

import pytest

from cosmic_tta.features.pack import FeaturePack
from cosmic_tta.features.synthetic import superclass_pack
from cosmic_tta.reporting.chart_data import ResultSet
from cosmic_tta.reporting.paper import ExperimentContext, attention, example_images, run_experiment

RunSmall = Callable[..., ResultSet]


@pytest.fixture(scope="session")
def small() -> FeaturePack:
    return superclass_pack(1, images=60, superclasses=3, members=2, dim=24, aux_dim=16, views=4)


@pytest.fixture(scope="session")
def run_small(small: FeaturePack) -> RunSmall:
    """Run an experiment on the small pack with two seeds, once; the experiments share their runs."""
    contexts = {oracle: ExperimentContext((small,), seeds=(0, 1), oracle=oracle) for oracle in (False, True)}

    @cache
    def run(name: str, *, oracle: bool = False) -> ResultSet:
        return run_experiment(name, contexts[oracle])

    return run


@pytest.fixture(scope="session")
def few_images() -> Iterator[None]:
    """Take few of the embedded photographs, so that experiments with images are fast."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(example_images, "EMBEDDED_IMAGES", 80)
        patch.setattr(attention, "MAX_EXAMPLES", 2)
        yield
