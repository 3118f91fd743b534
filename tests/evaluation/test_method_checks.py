"""Every registered method and preset keeps every promise; and the checks notice a method that does not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np
import pytest

from cosmic_tta import METHODS, Method, Prediction, Sample, State, Task, ZeroShot
from cosmic_tta.core.arrays import Array, softmax
from cosmic_tta.evaluation.method_checks import CHECKS, ContractError, check_method
from cosmic_tta.evaluation.method_factory import factory_of

SPECS = [f"{name}@{preset}" for name, kind in METHODS.items() for preset in kind.presets]
VARIANTS: list[dict[str, Any]] = [
    {"graph": graph, "order": order, "score": score, "rebuild": rebuild, "text_slot": text_slot}
    for graph, order, score, rebuild, text_slot in [
        ("threshold", 1, "exponential", "scheduled", True),
        ("degree", 1, "softmax", "always", False),
        ("degeneracy", 2, "exponential", "always", True),
    ]
]


def needs_tower(spec: str) -> bool:
    return "tower" in METHODS[spec.split("@", maxsplit=1)[0]].needs


FEWER: dict[str, dict[str, Any]] = {"difftpt@default": {"steps_each": 2}}  # its steps take the time
CENTRES = ["mean", "attention", "ema", "ema_all"]


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("spec", [pytest.param(s, marks=pytest.mark.torch if needs_tower(s) else ()) for s in SPECS])
def test_contract(spec: str, check: str) -> None:
    if needs_tower(spec):
        pytest.importorskip("torch")
    CHECKS[check](factory_of(spec, **FEWER.get(spec, {})))


@pytest.mark.torch
@pytest.mark.parametrize("check", ["snapshot_continues", "peek_changes_nothing", "steps_equal_one_by_one"])
def test_a_context_that_is_carried_over_keeps_the_contract(check: str) -> None:
    pytest.importorskip("torch")
    CHECKS[check](factory_of("tpt", carry_over=True))


@pytest.mark.parametrize("parameters", VARIANTS, ids=lambda p: "-".join(map(str, p.values())))
def test_every_graph_score_and_schedule_keeps_the_contract(parameters: dict[str, Any]) -> None:
    check_method(factory_of("cosmic", **parameters))


@pytest.mark.parametrize("aux_centre", CENTRES)
@pytest.mark.parametrize("centre", CENTRES)
def test_every_kind_of_centre_keeps_the_contract(centre: str, aux_centre: str) -> None:
    make = factory_of("cosmic", centre=centre, aux_centre=aux_centre)
    for check in ("snapshot_continues", "peek_changes_nothing", "steps_equal_one_by_one", "one_class"):
        CHECKS[check](make)


@dataclass
class HoardState(State):
    rows: Array


@final
@dataclass(frozen=True)
class Hoarder(Method[HoardState]):
    """Keeps everything, and a reference to it."""

    name: ClassVar[str] = "hoarder"

    def _init(self, task: Task) -> HoardState:
        return HoardState(task, seen=0, rows=np.zeros((0, task.dim), np.float32))

    def _predict(self, state: HoardState, sample: Sample, *, learn: bool) -> Prediction:
        state.rows = np.concatenate([state.rows, sample.clip[:1]])  # in peek, too
        scores = softmax(state.task.text @ sample.plain)
        return Prediction(scores, {"zero_shot": scores})


@final
@dataclass(frozen=True)
class Meddler(Method[State]):
    """Writes into its input and forgets to normalise."""

    name: ClassVar[str] = "meddler"

    def _init(self, task: Task) -> State:
        return State(task, seen=0)

    def _predict(self, state: State, sample: Sample, *, learn: bool) -> Prediction:
        sample.clip.flags.writeable = True
        sample.clip[0, 0] += np.float32(0.5)
        scores = state.task.text @ sample.plain
        return Prediction(scores, {"zero_shot": scores})


@pytest.mark.parametrize(
    ("method", "check"),
    [
        (Hoarder(), "bounded_memory"),
        (Hoarder(), "peek_changes_nothing"),
        (Meddler(), "input_untouched"),
        (Meddler(), "first_sample"),
    ],
)
def test_a_broken_promise_is_noticed(method: Method[Any], check: str) -> None:
    with pytest.raises(ContractError):
        CHECKS[check](lambda _: method)
    CHECKS[check](lambda _: ZeroShot())
