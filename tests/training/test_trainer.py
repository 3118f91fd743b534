"""Trainings: the same bits from the same seed, stopped or not; what cannot be trained is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cosmic_tta import Support
from cosmic_tta.core.errors import InputError, ParameterError, SnapshotError, UnknownNameError
from cosmic_tta.evaluation.method_factory import with_random_tower
from cosmic_tta.features.pack import FeaturePack
from cosmic_tta.features.synthetic import superclass_pack
from cosmic_tta.training.trainer import EpochResult, TrainingConfig, draw_shots, train, train_to_end
from tests.support.linear_tower import LinearTower, few_shots, linear_task

TOWERED = [pytest.param("coop", marks=pytest.mark.torch), pytest.param("cocoop", marks=pytest.mark.torch)]


TRAINED = [*TOWERED, "tip_adapter_f"]


def towered_if_needed(method: str, pack: FeaturePack) -> FeaturePack:
    if method == "tip_adapter_f":
        return pack
    pytest.importorskip("torch")
    return with_random_tower(pack)


@pytest.mark.parametrize("method", TRAINED)
def test_the_loss_falls_and_the_same_seed_gives_the_same_bits(method: str, small: FeaturePack) -> None:
    pack = towered_if_needed(method, small)
    config = TrainingConfig(shots=3, epochs=6, rate=0.02, batch=6, seed=3)
    epochs: list[EpochResult] = list(train(method, pack.task(), pack.support(), config))
    assert [epoch.done for epoch in epochs] == list(range(7))
    assert epochs[-1].loss < epochs[1].loss
    again = train_to_end(method, pack.task(), pack.support(), config)
    assert again.digest == epochs[-1].checkpoint.digest
    assert train_to_end(method, pack.task(), pack.support(), replace(config, seed=4)).digest != again.digest
    assert again.metadata["figures"] == {"loss": epochs[-1].loss, "accuracy": epochs[-1].accuracy}


@pytest.mark.parametrize("method", TRAINED)
def test_a_training_that_was_stopped_goes_on_bit_by_bit(method: str, small: FeaturePack, tmp_path: Path) -> None:
    pack = towered_if_needed(method, small)
    config, file = TrainingConfig(epochs=4, batch=20, rate=0.02), tmp_path / "partial.safetensors"
    for epoch in train(method, pack.task(), pack.support(), config, partial=file):
        if epoch.done == 2:
            break
    with pytest.raises(SnapshotError, match="another training"):
        next(train(method, pack.task(), pack.support(), replace(config, epochs=5), partial=file))
    rest = list(train(method, pack.task(), pack.support(), config, partial=file))
    assert [epoch.done for epoch in rest] == [2, 3, 4]
    assert not file.exists()
    assert rest[-1].checkpoint.digest == train_to_end(method, pack.task(), pack.support(), config).digest


def test_what_cannot_be_trained_is_refused_before_any_work() -> None:
    tower = LinearTower()
    task = linear_task(tower)
    support = few_shots(task)
    few = support.labels != 1
    with pytest.raises(InputError, match="no shot of 1 of 3 classes: 'class 1'"):
        next(train("coop", task, Support(support.features[few], support.labels[few]), TrainingConfig()))
    with pytest.raises(InputError, match="5 shots were asked for; the support has 4 of 'class 0'"):
        draw_shots(support, 5, 0)
    with pytest.raises(InputError, match="too long"):
        next(train("coop", task, support, TrainingConfig(tokens=9)))
    with pytest.raises(InputError, match="has none.*pip install 'cosmic-tta\\[torch\\]'"):
        next(train("coop", replace(task, tower=None), support))
    with pytest.raises(InputError, match="in another order"):
        next(train("coop", task, Support(support.features, support.labels, ("x", "y", "z"))))
    with pytest.raises(UnknownNameError, match="did you mean 'coop'"):
        next(train("coup", task, support))
    with pytest.raises(ParameterError, match="epochs must be"):
        TrainingConfig(epochs=-1)
    with pytest.raises(ParameterError, match="rate must be above 0"):
        TrainingConfig(rate=0.0)
    assert tower.calls == 0


@pytest.fixture(scope="module")
def small() -> FeaturePack:
    return superclass_pack(5, images=80, dim=24, aux_dim=8, views=10, superclasses=3, members=2, noise=1.0)
