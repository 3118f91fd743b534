from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import pytest

from cosmic_tta.core.errors import CosmicError, InputError, PackError, ParameterError, UnknownNameError
from cosmic_tta.core.method import Method
from cosmic_tta.core.types import Prediction, Sample, State, Task
from cosmic_tta.evaluation.benchmark import DEFAULT_STREAMS, BenchmarkPlan, default_methods, find_packs
from cosmic_tta.evaluation.jobs import fingerprint, open_pack
from cosmic_tta.evaluation.streams.registry import STREAMS
from cosmic_tta.features.pack import FeaturePack
from cosmic_tta.features.pack_ops import join, subset
from cosmic_tta.methods import METHODS


@pytest.fixture
def packs(tmp_path: Path, pack: FeaturePack) -> Path:
    """A folder with a pack with auxiliary features, one without, one without labels."""
    open_pack.cache_clear()
    fingerprint.cache_clear()
    replace(pack, name="both").write(tmp_path / "packs" / "a")
    renamed = tuple(f"my {name}" for name in pack.class_names)
    replace(pack, name="clip", aux=None, class_names=renamed).write(tmp_path / "packs" / "b")
    replace(pack, name="bare", labels=None).write(tmp_path / "packs" / "c")
    return tmp_path / "packs"


def test_the_default_methods_need_nothing_and_have_all_presets() -> None:
    found = default_methods()
    assert found[0] == "zero_shot"
    assert {"tda", "dmn", "cosmic", "cosmic@paper", "cosmic@official", "bayes_means"} <= set(found)
    assert not {"tip_adapter", "coop", "tpt"} & set(found)
    assert set(DEFAULT_STREAMS) <= set(STREAMS)


def test_packs_are_found_one_level_deep_and_once(packs: Path) -> None:
    (packs / ".unfinished").mkdir()
    (packs / ".unfinished" / "pack.json").write_text("{}")
    (packs / "notes").mkdir()
    assert [Path(folder).name for folder in find_packs([packs])] == ["a", "b", "c"]
    assert [Path(folder).name for folder in find_packs([packs / "b", packs, packs / "b"])] == ["b", "a", "c"]


@pytest.mark.parametrize(
    ("name", "said"), [("nowhere", "no folder at"), ("notes", "no packs found in .*cosmic extract")]
)
def test_a_folder_without_packs_is_refused(packs: Path, name: str, said: str) -> None:
    (packs / "notes").mkdir()
    with pytest.raises(PackError, match=said):
        find_packs([packs / name])


def test_auxiliary_features_are_given_and_removed_where_there_are_any(packs: Path) -> None:
    plan = BenchmarkPlan(find_packs([packs]), ("zero_shot", "tda"), ("shuffle", "given"), seeds=(0, 1))
    plan.check()
    runs = [(Path(job.pack).name, job.aux, job.order, job.spec, job.seed) for job in plan.jobs]
    assert len(runs) == len(set(runs)) == 3 * (2 + 1) * 2  # settings × seeds of the two orders × methods
    assert {run[:2] for run in runs} == {("a", "given"), ("a", "none"), ("b", "none")}
    assert plan.left_out == ("The pack 'bare' is left out: it has no labels, so no accuracy can be measured.",)
    assert plan.datasets["both"] != plan.datasets["clip"]
    assert plan.datasets["both"] == plan.datasets["bare"] == "both + bare"


def test_a_stream_that_a_pack_cannot_serve_is_left_out(packs: Path, pack: FeaturePack) -> None:
    assert pack.labels is not None
    one = subset(pack, pack.labels == pack.labels[0], "one")
    one.write(packs / "d")
    join([subset(pack, slice(0, 60), "x"), subset(pack, slice(60, 120), "y")]).write(packs / "e")
    streams = ("shuffle", "open-set", "switching", "switching:0.3")
    plan = BenchmarkPlan(find_packs([packs / "d", packs / "e"]), ("zero_shot",), streams, seeds=(0,))
    plan.check()
    served = {name: {job.order for job in plan.jobs if Path(job.pack).name == name} for name in "de"}
    assert served["d"] == {"shuffle", "switching", "switching:0.3"}
    assert served["e"] == {"shuffle", "open-set", "switching"}
    first, second = plan.left_out
    assert first.startswith("The stream 'open-set' is left out on the pack 'one': ")
    assert "has domains of its own" in second


@dataclass(frozen=True)
class Narrow(Method[State]):
    """Refuses tasks without auxiliary features."""

    name: ClassVar[str] = "narrow"

    def _init(self, task: Task) -> State:
        if task.aux_dim is None:
            raise InputError("narrow needs auxiliary features.")
        return State(task, seen=0)

    def _predict(self, state: State, sample: Sample, *, learn: bool) -> Prediction:
        raise NotImplementedError


def test_a_method_that_does_not_fit_a_pack_is_left_out(packs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METHODS._classes, "narrow", Narrow)
    plan = BenchmarkPlan(find_packs([packs]), ("zero_shot", "narrow"), ("shuffle",), seeds=(0,))
    plan.check()
    assert {Path(job.pack).name for job in plan.jobs if job.spec == "narrow"} == {"a"}
    assert "narrow is left out on the pack 'clip': narrow needs auxiliary features." in plan.left_out


def test_values_of_parameters_are_run_beside_the_preset(packs: Path) -> None:
    plan = BenchmarkPlan(
        find_packs([packs / "b"]), ("tda",), ("shuffle",), seeds=(0,), parameters={"tda": {"shots": (2, 3)}}
    )
    plan.check()
    assert [str(job).partition(" on ")[0] for job in plan.jobs] == ["tda", "tda shots=2"]  # 3 is the preset's


@pytest.mark.parametrize(
    ("changes", "kind", "said"),
    [
        ({"methods": ("cosmik",)}, UnknownNameError, "did you mean 'cosmic'"),
        ({"methods": ("tda", "tda@default")}, InputError, "given twice"),
        ({"methods": ("tip_adapter",)}, InputError, "tip_adapter needs a support; .* `cosmic eval`"),
        ({"streams": ("shufle",)}, UnknownNameError, "did you mean 'shuffle'"),
        ({"aux": ("gven",)}, UnknownNameError, "did you mean 'given'"),
        ({"seeds": ()}, InputError, "seeds is empty"),
        ({"limit": 0}, InputError, "limit must be at least 1"),
        ({"parameters": {"tda": {"shots": (0,)}}}, ParameterError, "shots must be from 1"),
        ({"parameters": {"tda": {"shot": (1,)}}}, CosmicError, "did you mean 'shots'"),
    ],
)
def test_wrong_plans_are_refused(packs: Path, changes: dict[str, object], kind: type[Exception], said: str) -> None:
    plan = BenchmarkPlan(find_packs([packs]), ("tda",), ("shuffle",))
    with pytest.raises(kind, match=said):
        replace(plan, **changes).check()  # type: ignore[arg-type]


def test_packs_of_one_name_and_packs_without_any_run_are_refused(packs: Path, pack: FeaturePack) -> None:
    replace(pack, name="both").write(packs / "f")
    with pytest.raises(InputError, match="f' have the same name, 'both'"):
        BenchmarkPlan(find_packs([packs]), ("tda",)).check()
    with pytest.raises(InputError, match=r"nothing is left to run. The pack 'bare' is left out"):
        BenchmarkPlan(find_packs([packs / "c"]), ("tda",)).check()
