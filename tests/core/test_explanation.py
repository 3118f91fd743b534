"""Explanations: as text, as plain values, and pickled with their predictions."""

from __future__ import annotations

import json
import pickle
from functools import partial
from typing import Any

import numpy as np
import pytest

from cosmic_tta import METHODS, Explanation
from cosmic_tta.core.arrays import as_float32
from cosmic_tta.core.explanation import HyperClass, Vote, explain_votes, votes
from cosmic_tta.evaluation.method_factory import factory_of, with_random_tower
from cosmic_tta.features.pack import FeaturePack
from cosmic_tta.features.synthetic import superclass_pack

SPECS = [f"{name}@{preset}" for name, kind in METHODS.items() for preset in kind.presets]
FEWER: dict[str, dict[str, Any]] = {"difftpt@default": {"steps_each": 2}}


def needs_tower(spec: str) -> bool:
    return "tower" in METHODS[spec.split("@", maxsplit=1)[0]].needs


@pytest.fixture(scope="module")
def small() -> FeaturePack:
    return superclass_pack(3, images=12, dim=32, aux_dim=24, views=4, superclasses=2, members=2)


@pytest.mark.parametrize("spec", [pytest.param(s, marks=pytest.mark.torch if needs_tower(s) else ()) for s in SPECS])
def test_the_prediction_of_every_method_can_be_pickled(spec: str, small: FeaturePack) -> None:
    pack = small
    if needs_tower(spec):
        pytest.importorskip("torch")
        pack = with_random_tower(small)
    method = factory_of(spec, **FEWER.get(spec, {}))(pack)
    state = method.init(pack.task())
    predictions = [method.step(state, pack.sample(index)) for index in range(6)]
    for prediction in (*predictions, method.peek(state, pack.sample(7))):
        copied = pickle.loads(pickle.dumps(prediction))
        assert copied.why == prediction.why
        assert pickle.loads(pickle.dumps(prediction)).why == prediction.why  # now that it was computed
        np.testing.assert_array_equal(copied.scores, prediction.scores)
        assert copied.parts.keys() == prediction.parts.keys()


def test_a_pickled_prediction_does_not_hold_the_task(small: FeaturePack) -> None:
    for spec in ("cosmic", "cosmic@official", "tda", "dmn"):
        method = factory_of(spec)(small)
        state = method.init(small.task())
        explain = method.step(state, small.sample(0)).explain
        assert isinstance(explain, partial)
        assert len(pickle.dumps(explain)) < small.text.nbytes + small.clip[0].nbytes + 4000


def test_votes_are_sorted_and_empty_slots_left_out() -> None:
    cast = votes("cat", np.array([4, -1, 2]), as_float32([0.1, 0.9, 0.3]))
    assert [(vote.sample, vote.label) for vote in cast] == [(2, "cat"), (4, "cat")]
    assert explain_votes("clip", "cat", np.array([4, -1, 2]), as_float32([0.1, 0.9, 0.3])).votes == {"clip": cast}


def test_lines_are_limited_and_small_votes_left_out() -> None:
    why = Explanation(
        hyper_classes={"css": tuple(HyperClass((f"{k} (text)",), 1 - k / 10) for k in range(5))},
        inliers={"css": tuple(map(str, range(8)))},
        votes={"css": (Vote(3, "cat", 0.5), Vote(1, "cat", 0.001)), "afv": (Vote(0, "cat", 0.0),)},
        reliability={"clip": 0.25},
    )
    assert list(why.lines({3: "a.png"}, limit=2)) == [
        "css: nearest hyper-classes {0 (text)} 1.00; {1 (text)} 0.90, and 3 more",
        "css: inlier classes 0, 1, 2, 3, 4, 5, and 2 more",
        "css: samples that voted for cat: a.png 0.50",
        "clip: reliability 0.25",
    ]


def test_plain_values_are_json_without_empty_fields() -> None:
    why = Explanation(votes={"clip": (Vote(3, "cat", 0.5),)}, soft_counts={"cat": 1.5})
    assert json.loads(json.dumps(why.plain())) == {
        "votes": {"clip": [{"sample": 3, "label": "cat", "weight": 0.5}]},
        "soft_counts": {"cat": 1.5},
    }
