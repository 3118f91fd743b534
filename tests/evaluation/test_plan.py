from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cosmic_tta.core.errors import CosmicError
from cosmic_tta.evaluation.jobs import Job
from cosmic_tta.evaluation.plan import EvaluationPlan
from cosmic_tta.features.pack import FeaturePack

pytestmark = pytest.mark.pathless


@pytest.fixture
def plan(folder: Path) -> EvaluationPlan:
    return EvaluationPlan((str(folder / "pack"),), ("zero_shot", "tda"), limit=20)


@pytest.fixture
def shots(folder: Path, pack: FeaturePack) -> str:
    """The folder of a pack that may be the support of an evaluation."""
    assert pack.labels is not None
    replace(pack, name="shots", clip=pack.clip[:60], aux=None, labels=pack.labels[:60]).write(folder / "shots")
    return str(folder / "shots")


def test_jobs_are_listed_by_pack_then_stream_then_method(plan: EvaluationPlan, pack: FeaturePack, folder: Path) -> None:
    replace(pack, name="second").write(folder / "second")
    both = (*plan.packs, str(folder / "second"))
    jobs = replace(plan, packs=both, orders=("shuffle", "dominant"), seeds=(0, 1)).jobs()
    assert [(Path(job.pack).name, job.order, job.spec, job.seed) for job in jobs] == [
        (name, order, spec, seed)
        for name in ("pack", "second")
        for order in ("shuffle", "dominant")
        for spec in ("zero_shot", "tda")
        for seed in (0, 1)
    ]
    assert {job.limit for job in jobs} == {20}


def test_all_combinations_of_parameters_are_run(plan: EvaluationPlan) -> None:
    parameters = {"tda": {"shots": (2, 4, 2), "alpha": (1.0, 3.0)}}
    jobs = replace(plan, parameters=parameters).jobs()
    assert [dict(job.parameters) for job in jobs] == [
        {},
        {"alpha": 1.0, "shots": 2},
        {"alpha": 1.0, "shots": 4},
        {"alpha": 3.0, "shots": 2},
        {"alpha": 3.0, "shots": 4},
    ]


def test_seeds_that_change_nothing_are_run_once(plan: EvaluationPlan) -> None:
    jobs = replace(plan, methods=("tda",), orders=("given", "shuffle"), aux=("given", "random"), seeds=(0, 1)).jobs()
    assert Counter((job.order, job.aux) for job in jobs) == {
        ("given", "given"): 1,
        ("given", "random"): 2,
        ("shuffle", "given"): 2,
        ("shuffle", "random"): 2,
    }


def test_a_resource_goes_to_the_methods_that_need_it(plan: EvaluationPlan, shots: str) -> None:
    plan = replace(plan, methods=("tda", "tip_adapter"), support=shots)
    plan.check()
    tda, tip_adapter = plan.jobs()
    assert (tda.support, tip_adapter.support) == (None, shots)


def test_a_guard_and_joined_packs_reach_the_job(plan: EvaluationPlan, pack: FeaturePack, folder: Path) -> None:
    replace(pack, name="second").write(folder / "second")
    plan = replace(plan, packs=(*plan.packs, str(folder / "second")), methods=("tda",), join=True, guard=True)
    plan.check()
    (path, second) = plan.packs
    assert plan.jobs() == [Job("tda", (), path, limit=20, joined_packs=(second,), guard=True)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"methods": ()}, "methods is empty; give at least one"),
        ({"methods": ("tdaa",)}, "did you mean 'tda'"),
        ({"methods": ("tda", "tda@default")}, "methods: given twice: tda@default"),
        ({"parameters": {"tda": {"shot": (2,)}}}, "did you mean 'shots'"),
        ({"parameters": {"tda": {"shots": ()}}}, "the parameter 'shots' of tda has no values"),
        ({"parameters": {"tda": {"shots": (0,)}}}, "shots must be from 1"),
        ({"parameters": {"dmn": {"shots": (2,)}}}, "parameters of 'dmn' are given, but the plan runs zero_shot, tda"),
        ({"packs": ("absent",)}, "no pack at 'absent'"),
        ({"orders": ("shufle",)}, "did you mean 'shuffle'"),
        ({"orders": ("shuffle", "shuffle")}, "orders: given twice: shuffle"),
        ({"aux": ("nothing",)}, "unknown kind of auxiliary features 'nothing'"),
        ({"seeds": (1, 1)}, "seeds: given twice: 1"),
        ({"seeds": (-1,)}, "a seed must be 0 or more; given -1"),
        ({"limit": 0}, "the limit must be at least 1; given 0"),
        ({"join": True}, "to join packs takes at least two; given 1"),
        ({"tower": "mini:clip"}, "the tower is for methods that learn prompts; zero_shot, tda would not use it"),
        ({"support": "absent"}, "the support is for few-shot methods; zero_shot, tda would not use it"),
        ({"methods": ("tip_adapter",)}, "needs labelled training features"),
        ({"checkpoints": ("absent.safetensors",)}, "no checkpoint at 'absent.safetensors'"),
    ],
)
def test_a_plan_that_cannot_be_run_is_refused_in_one_sentence(
    plan: EvaluationPlan, change: dict[str, Any], message: str
) -> None:
    with pytest.raises(CosmicError, match=message) as refused:
        replace(plan, **change).check()
    assert "\n" not in str(refused.value)


def test_a_support_must_not_reveal_labels_and_must_fit_the_task(plan: EvaluationPlan, shots: str) -> None:
    plan = replace(plan, methods=("tip_adapter",))
    with pytest.raises(CosmicError, match="must not be a pack that is evaluated"):
        replace(plan, support=plan.packs[0]).check()
    with pytest.raises(CosmicError, match="tip_adapter: the support has all classes, and the order 'open-set' removes"):
        replace(plan, support=shots, orders=("shuffle", "open-set")).check()


def test_packs_of_one_name_are_refused(plan: EvaluationPlan, pack: FeaturePack, folder: Path) -> None:
    pack.write(folder / "copy")
    said = "copy' have the same name, 'generated-20', so .* edit \"name\" in the pack.json of one"
    with pytest.raises(CosmicError, match=said):
        replace(plan, packs=(*plan.packs, str(folder / "copy"))).check()


def test_a_stream_that_needs_labels_is_refused_without(plan: EvaluationPlan, pack: FeaturePack, folder: Path) -> None:
    replace(pack, name="blind", labels=None).write(folder / "blind")
    with pytest.raises(CosmicError, match="'dominant' needs labels, and pack 'blind' has none"):
        replace(plan, packs=(str(folder / "blind"),), orders=("shuffle", "dominant")).check()
