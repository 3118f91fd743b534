from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cosmic_tta import Sample, make_method
from cosmic_tta.core.errors import InputError, ParameterError
from cosmic_tta.evaluation.evaluator import run_evaluation
from cosmic_tta.evaluation.method_factory import with_random_tower
from cosmic_tta.features.pack import FeaturePack
from cosmic_tta.features.pack_ops import subset
from cosmic_tta.features.synthetic import superclass_pack
from cosmic_tta.training.trainer import TrainingConfig, train_to_end
from tests.support.linear_tower import LinearTower, few_shots, linear_task


def test_coop_learns_what_the_shots_show() -> None:
    task = linear_task(LinearTower())
    support = few_shots(task, each=16)
    learned = train_to_end("coop", task, support, TrainingConfig(epochs=60, rate=0.2))
    method = make_method("coop", checkpoint=learned)
    state = method.init(task)
    named = np.array([method.step(state, Sample(row[None])).label for row in support.features])
    zero_shot = (support.features @ task.text.T).argmax(axis=1) == support.labels
    assert (named == support.labels).mean() > zero_shot.mean()


def test_a_context_for_each_class_learns_more_and_serves_no_other() -> None:
    pytest.importorskip("torch")
    pack = with_random_tower(superclass_pack(5, images=60, dim=24, superclasses=3, members=2, noise=1.0, views=1))
    config = TrainingConfig(epochs=8, rate=0.05, class_specific=True)
    learned = train_to_end("coop", pack.task(), pack.support(), config)
    assert learned.arrays["context"].shape[:2] == (6, 4)
    method = make_method("coop", checkpoint=learned)
    method.init(pack.task())
    other = with_random_tower(replace(pack, class_names=tuple("uvwxyz"), tower=None))
    with pytest.raises(InputError, match="without --class-specific"):
        method.init(other.task())
    with pytest.raises(ParameterError, match="CoOp's"):
        train_to_end("cocoop", pack.task(), pack.support(), config)


@pytest.fixture(scope="module")
def small() -> FeaturePack:
    return superclass_pack(5, images=80, dim=24, aux_dim=8, views=10, superclasses=3, members=2, noise=1.0)


@pytest.mark.torch
@pytest.mark.parametrize("method", ["coop", "cocoop"])
def test_what_was_learned_moves_to_other_classes(method: str, small: FeaturePack) -> None:
    pytest.importorskip("torch")
    pack = with_random_tower(small)
    learned = train_to_end(method, pack.task(), pack.support(), TrainingConfig(epochs=1))
    other = with_random_tower(superclass_pack(6, images=10, dim=24, aux_dim=8, views=1, superclasses=2, members=2))
    assert run_evaluation(make_method(method, checkpoint=learned), other).report.n == 10


@pytest.mark.torch
def test_on_the_embedded_pair_a_few_shots_of_a_shift_help() -> None:
    pytest.importorskip("torch")
    from cosmic_tta.data.images.corrupt import Corruption
    from cosmic_tta.features.embedded_pack import shifted_pack
    from cosmic_tta.features.text_towers import attach_tower

    pack = attach_tower(shifted_pack(Corruption("pixelation", 4), 700), device="cpu")
    assert pack.labels is not None
    stream, support = subset(pack, slice(0, 400)), subset(pack, slice(400, None)).support()
    learned = train_to_end(
        "coop", pack.task(), support, TrainingConfig(shots=16, rate=0.3, epochs=40, class_specific=True)
    )
    assert run_evaluation(make_method("coop", checkpoint=learned), stream).report.metrics["gain"] >= 0.05
