"""Every parameter of every method does something, and is read and described as what it is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cosmic_tta import METHODS, Cosmic
from cosmic_tta.core.errors import ParameterError
from cosmic_tta.core.parameters import describe, parse, values
from cosmic_tta.evaluation.evaluator import EvaluationRun, run_evaluation
from cosmic_tta.evaluation.method_factory import factory_of, with_random_tower
from cosmic_tta.features.pack import FeaturePack
from cosmic_tta.features.synthetic import superclass_pack

# What else must be set for a parameter to matter, the value to try, and the stream that shows it.
GRAPH = {"score": "exponential"}  # whose scores show which nodes are in
CONTEXT: dict[str, dict[str, Any]] = {
    **dict.fromkeys(
        ("graph", "degeneracy", "aux_degeneracy", "order", "common", "rebuild", "ratio", "rounding", "cosine",
         "alpha", "beta"),
        GRAPH,
    ),
    **dict.fromkeys(("threshold", "aux_threshold"), GRAPH | {"graph": "threshold"}),
    **dict.fromkeys(("degree", "aux_degree"), GRAPH | {"graph": "degree"}),
    "growth": GRAPH | {"graph": "threshold", "growth": 1e-3},
    "rebuild_every": GRAPH | {"shots": 1, "aux_shots": 1, "rebuild_every": 10},
    "max_cliques": GRAPH | {"degeneracy": 9},
    "empty_scores": GRAPH | {"ratio": 1.0},
    "ema_decay": {"centre": "ema"},
    "stored": {"confident": 0.5},
    "negative_mask": {"negative_alpha": 5.0},
}  # fmt: skip
VALUES: dict[str, Any] = {
    "max_cliques": 1,
    "common": 3,
    "threshold": 0.3,
    "aux_threshold": 0.6,
    "negative_mask": (0.03, 0.2),
    "window": 200,
    "aging": 0.5,
    "steps_each": 3,
}
ORDER = {"temporal": "class-sequential"}
CASES = [(kind, name) for kind, method in METHODS.items() for name in describe(method)]


@pytest.fixture(scope="module")
def stream() -> FeaturePack:
    return superclass_pack(4, images=400, dim=16, aux_dim=12, views=20, superclasses=4, members=3, noise=1.5)


@pytest.fixture(scope="module")
def few() -> FeaturePack:
    """A short stream, for methods that pass the text tower for each image."""
    return superclass_pack(4, images=12, dim=16, aux_dim=12, views=20, superclasses=4, members=3, noise=1.5)


def another(name: str, told: dict[str, Any], now: Any) -> Any:
    """Return another value of a parameter."""
    if name in VALUES:
        return VALUES[name]
    if told["type"] == "bool":
        return not now
    if told["type"] == "choice":
        return next(choice for choice in told["choices"] if choice != now)
    if told["type"] == "int":
        return max(1, now // 2)
    if told["type"] == "float":
        return now / 2 if now > 1 or told.get("range", [0])[0] < 1 else now + 1
    return tuple(value * (0.5 + 0.2 * place) for place, value in enumerate(now))


def differ(one: EvaluationRun, other: EvaluationRun) -> bool:
    if one.parts.keys() != other.parts.keys():
        return True
    pairs = [(one.scores, other.scores), *((one.parts[name], other.parts[name]) for name in one.parts)]
    return any(not np.array_equal(a, b) for a, b in pairs)


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_every_parameter_changes_what_comes_out(stream: FeaturePack, few: FeaturePack, kind: str, name: str) -> None:
    own = describe(METHODS[kind])
    context = {key: value for key, value in CONTEXT.get(name, {}).items() if key in own}
    if "tower" in METHODS[kind].needs:
        pytest.importorskip("torch")
        stream = with_random_tower(few)
    usual = factory_of(kind, **context)(stream)
    value = 1.5 if name == "sweep_ratio" else another(name, own[name], values(usual)[name])
    other = factory_of(kind, **context | {name: value})(stream)
    order = ORDER.get(name, "shuffle")
    assert differ(run_evaluation(usual, stream, order=order), run_evaluation(other, stream, order=order))


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_every_parameter_is_read_back_from_text(kind: str, name: str) -> None:
    told = describe(METHODS[kind])[name]
    text = ",".join(map(str, told["default"])) if isinstance(told["default"], list) else str(told["default"])
    read = parse(METHODS[kind], name, text)
    assert (list(read) if isinstance(read, tuple) else read) == told["default"]
    assert told["help"]


def test_a_preset_names_every_parameter_that_it_reads() -> None:
    """So that a change of the default leaves the others alone; the unread belong to other graphs and scores."""
    presets = METHODS["cosmic"].presets
    unread = {
        "paper": {
            "ema_decay",
            "degree",
            "aux_degree",
            "degeneracy",
            "aux_degeneracy",
            "rebuild_every",
            "alpha",
            "beta",
        },
        "official": {"ema_decay", "threshold", "aux_threshold", "growth", "degeneracy", "aux_degeneracy"},
    }
    for name, without in unread.items():
        assert set(describe(METHODS["cosmic"])) - set(presets[name]) == without | {"max_cliques"}


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"shots": 0}, "cosmic: shots must be from 1 to 1e.06; given 0"),
        ({"shots": 1e9}, "shots must be from 1 to 1e.06"),
        ({"shots": 2.5}, "shots must be a whole number; given 2.5"),
        ({"ratio": 1.5}, "ratio must be from 0 to 1; given 1.5"),
        ({"ratio": float("nan")}, "ratio must be a number; given nan"),
        ({"graph": "dense"}, "graph must be one of threshold, degree, degeneracy; given 'dense'"),
        ({"text_slot": 1}, "text_slot must be true or false; given 1"),
        ({"weights": (1, 1)}, r"weights must be 3 numbers; given \(1, 1\)"),
        ({"weights": (1, 1, -1)}, "weights must be from 0 to"),
    ],
)
def test_a_bad_parameter_is_refused_when_the_method_is_made(parameters: dict[str, Any], said: str) -> None:
    with pytest.raises(ParameterError, match=said):
        Cosmic(**parameters)
