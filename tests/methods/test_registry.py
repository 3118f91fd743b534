from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, final

import pytest

from cosmic_tta import METHODS, Cosmic, Method, Prediction, Sample, State, Task, ZeroShot, make_method
from cosmic_tta.core.errors import InputError, ParameterError, UnknownNameError
from cosmic_tta.methods import OBJECTIVES, register_method, register_objective, split_name
from cosmic_tta.methods.registry import register_loaded


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("cosmik", "unknown method 'cosmik': did you mean 'cosmic'"),
        ("cosmic@papr", "unknown preset of cosmic 'papr': did you mean 'paper'"),
        ("tda@paper", "unknown preset of tda 'paper'. Known: default"),
    ],
)
def test_an_unknown_name_answers_did_you_mean(spec: str, said: str) -> None:
    with pytest.raises(UnknownNameError, match=said):
        make_method(spec)


def test_an_unknown_parameter_answers_did_you_mean() -> None:
    with pytest.raises(ParameterError, match="unknown parameter of cosmic 'shot': did you mean 'shots'"):
        make_method("cosmic", shot=4)


def test_presets_are_of_known_parameters_and_a_method_is_a_value() -> None:
    for name, kind in METHODS.items():
        if not {"support", "checkpoint"} & set(kind.needs):
            for preset in kind.presets:
                assert make_method(f"{name}@{preset}") == make_method(f"{name}@{preset}")
    paper = make_method("cosmic@paper")
    assert isinstance(paper, Cosmic)
    assert replace(paper, shots=3) == make_method("cosmic@paper", shots=3)


def test_every_method_of_the_package_is_found_in_a_stable_order() -> None:
    own = [name for name, kind in METHODS.items() if kind.__module__.startswith("cosmic_tta.")]
    assert own == ["zero_shot", "dmn", "tda", "cosmic", "bayes_means", "tip_adapter_f", "tip_adapter", "tpt", "difftpt",
                   "cocoop", "coop"]  # fmt: skip
    assert list(OBJECTIVES)[:3] == ["cocoop", "coop", "tip_adapter_f"]
    assert all(split_name(name) == (METHODS[name], "default") for name in own)
    assert len(METHODS) >= len(own)
    assert "cosmik" not in METHODS


def another(**attributes: Any) -> Any:
    """Return a method class with some attributes of its own."""

    @final
    @dataclass(frozen=True)
    class Another(Method[State]):
        name: ClassVar[str] = "another"

        def _init(self, task: Task) -> State:
            return State(task, seen=0)

        def _predict(self, state: State, sample: Sample, *, learn: bool) -> Prediction:
            return ZeroShot()._predict(state, sample, learn=learn)

    for name, value in attributes.items():
        setattr(Another, name, value)
    return Another


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (another(name="tda"), "the method 'tda' is already registered by cosmic_tta.methods.tda; choose another name"),
        (another(name="a@b"), "Another.name must be letters, digits and underscores; given 'a@b'"),
        (another(name=None), "given None"),
        (another(presets={}), r"presets must have a preset 'default'; given \[\]"),
        (State, "expects a frozen dataclass that extends Method; given <class"),
        ("tda", "expects a frozen dataclass that extends Method; given 'tda'"),
    ],
)
def test_a_class_that_cannot_be_registered_is_refused(kind: Any, said: str) -> None:
    before = dict(METHODS)
    with pytest.raises(InputError, match=said):
        register_method(kind)
    assert dict(METHODS) == before


def test_an_objective_is_registered_under_its_method() -> None:
    with pytest.raises(InputError, match="expects a class that extends TrainingObjective"):
        register_objective(Cosmic)  # type: ignore[type-var]

    other = type("Other", (OBJECTIVES["coop"],), {})
    with pytest.raises(InputError, match="training objective of 'coop' is already registered"):
        register_objective(other)


def test_an_entry_point_names_a_class_or_a_module() -> None:
    register_loaded(METHODS["tda"])
    register_loaded(OBJECTIVES["coop"])
    register_loaded(pytest)  # a module registers its classes when it is imported
    with pytest.raises(InputError, match="extends Method"):
        register_loaded(int)
