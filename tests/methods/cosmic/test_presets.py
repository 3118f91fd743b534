"""The preset `paper` gives what the paper's equations, transcribed naively, give."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from cosmic_tta import Cosmic, Prediction, Sample, Task, make_method
from cosmic_tta.core.parameters import values
from cosmic_tta.methods.cosmic.presets import OFFICIAL, PAPER
from tests.support.naive_paper import Answer, Parameters, naive_paper

STREAMS = 600  # compared; those that are too near a tie come on top
MARGIN = 1e-5  # below it single and double precision may decide differently
TOLERANCE = 2e-4  # on probabilities, in single precision at a logit scale of up to 100

SEEDS = st.integers(0, 2**32 - 1)
EVENTS = (
    "replacement",
    "clique of three or more",
    "clique of three or more selected",
    "clique left out",
    "node excluded",
    "edge dropped by the second order",
    "empty class selected",
    "threshold at one",
)

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Stream:
    """A random small stream, and the parameters to run it with."""

    texts: Floats
    logit_scale: float
    parameters: Parameters
    overrides: dict[str, Any]
    samples: list[tuple[Floats, Floats | None]]


def unit_rows(rows: NDArray[np.float64]) -> Floats:
    scaled: Floats = (rows / np.linalg.norm(rows, axis=-1, keepdims=True)).astype(np.float32)
    return scaled


def off_unit(rng: np.random.Generator, *shape: int) -> Floats:
    """Lengths that are not quite one."""
    return rng.uniform(0.9993, 1.0007, shape).astype(np.float32)


def near(centres: NDArray[np.float64], spread: float, rng: np.random.Generator) -> NDArray[np.float64]:
    """Unit rows around given ones."""
    noise = rng.standard_normal(centres.shape) * spread / np.sqrt(centres.shape[-1])
    return unit_rows(centres + noise).astype(np.float64)


def random_stream(seed: int, *, below_zero: bool = False) -> Stream:
    """Draw classes in groups, images around their class, views around their image; some streams loose, some tight.

    Thresholds are zero or more; with `below_zero` they are less.
    """
    rng = np.random.default_rng(seed)
    classes, dim, aux_dim = int(rng.integers(1, 8)), int(rng.integers(3, 13)), int(rng.integers(2, 11))
    views, length, with_aux = int(rng.integers(1, 25)), int(rng.integers(1, 26)), bool(rng.random() < 0.75)
    logit_scale = float(rng.choice([10.0, 30.0, 100.0])) if rng.random() < 0.5 else float(rng.uniform(10, 100))

    group = rng.integers(0, int(rng.integers(1, 4)), classes)
    spread = float(rng.uniform(0.5, 4)) / np.sqrt(logit_scale)  # logits that differ by a few: neither sure nor even
    origin = rng.standard_normal((1, dim)) * float(rng.choice([0.0, 1.0, 3.0])) / np.sqrt(dim)
    middles = near(origin + rng.standard_normal((3, dim)) / np.sqrt(dim), 0.0, rng)
    texts = near(middles[group], spread, rng)
    images = near(texts, spread * float(rng.uniform(0.2, 1)), rng)
    aux_spread = float(rng.uniform(0.2, 2))
    aux_origin = rng.standard_normal((1, aux_dim)) * float(rng.choice([0.0, 1.0])) / np.sqrt(aux_dim)
    aux_middles = near(aux_origin + rng.standard_normal((3, aux_dim)) / np.sqrt(aux_dim), 0.0, rng)
    aux_images = near(aux_middles[group], aux_spread, rng)

    samples: list[tuple[Floats, Floats | None]] = []
    for label in rng.integers(0, int(rng.integers(1, classes + 1)), length):
        image = near(images[label], spread, rng)
        views_of_it = near(np.repeat(image[None], views, axis=0), 0.5 * spread, rng)
        views_of_it[0] = image
        aux = near(aux_images[label], aux_spread, rng).astype(np.float32) if with_aux else None
        samples.append((views_of_it.astype(np.float32), aux))

    overrides: dict[str, Any] = {
        "shots": int(rng.integers(1, 6)),
        "aux_shots": int(rng.integers(1, 6)),
        "ratio": float(rng.choice([0.1, 0.2, 0.3, 0.5, 1.0])) if rng.random() < 0.5 else float(rng.uniform(0.02, 1)),
    }
    if rng.random() < 0.8:  # else the preset's own values
        overrides["threshold"] = float(rng.uniform(0.3, 0.95))
        overrides["aux_threshold"] = float(rng.uniform(0, 0.8))
        overrides["growth"] = float(rng.choice([0.0, 1e-5, 1e-3, 0.05]))
    if below_zero:
        overrides["threshold"] = float(rng.uniform(-0.5, 0))
        overrides["aux_threshold"] = float(rng.uniform(-0.5, 0))
    if rng.random() < 0.3:  # rows as float16 leaves them: unit to within 1e-3
        texts, samples = texts * off_unit(rng, classes, 1), [(v * off_unit(rng, len(v), 1), a) for v, a in samples]
    parameters = Parameters(**overrides)
    if rng.random() < 0.3:
        betas = (float(rng.uniform(0.1, 2)), float(rng.uniform(0, 2)), float(rng.uniform(0, 2)))
        attention = float(rng.uniform(0, 10))
        parameters = Parameters(**overrides, attention=attention, betas=betas)
        overrides |= {"attention_beta": attention, "weights": betas}
    return Stream(texts.astype(np.float32), logit_scale, parameters, overrides, samples)


def check_answer(prediction: Prediction, answer: Answer) -> None:
    """Compare one prediction, part by part."""
    expected = {"zero_shot": answer.zero_shot, "css": answer.css}
    if answer.afv is not None:
        expected["afv"] = answer.afv
    assert ("afv" in prediction.parts) == ("afv" in expected)
    for name, part in expected.items():
        np.testing.assert_allclose(prediction.parts[name], part, rtol=0, atol=TOLERANCE, err_msg=name)
    np.testing.assert_allclose(prediction.scores, answer.final / answer.final.sum(), rtol=0, atol=TOLERANCE)


def check_stream(stream: Stream) -> Counter[str]:
    """Compare one stream, unless it is too near a tie; return what happened in it."""
    outcome = naive_paper(stream.texts, stream.logit_scale, stream.parameters, stream.samples)
    assume(outcome.margin >= MARGIN)
    names = tuple(f"class {k}" for k in range(len(stream.texts)))
    method = make_method("cosmic@paper", **stream.overrides)
    state = method.init(Task(names, stream.texts, logit_scale=stream.logit_scale))
    for (views, aux), answer in zip(stream.samples, outcome.answers, strict=True):
        check_answer(method.step(state, Sample(views, aux)), answer)
    return outcome.events


def many(streams: int) -> settings:
    """As many compared streams as that, the same in every run."""
    unhealthy = [HealthCheck.filter_too_much, HealthCheck.too_slow]
    return settings(max_examples=streams, derandomize=True, deadline=None, suppress_health_check=unhealthy)


def test_it_has_the_values_of_the_paper() -> None:
    given = values(make_method("cosmic@paper"))
    paper = Parameters(shots=8, aux_shots=8, ratio=0.2)
    assert given["threshold"] == paper.threshold
    assert given["aux_threshold"] == paper.aux_threshold
    assert given["growth"] == paper.growth
    assert given["attention_beta"] == paper.attention
    assert tuple(given["weights"]) == paper.betas


def test_it_agrees_with_the_equations() -> None:
    compared: set[int] = set()
    streams_with: Counter[str] = Counter()

    @many(STREAMS)
    @given(seed=SEEDS)
    def agrees(seed: int) -> None:
        stream = random_stream(seed)
        events = check_stream(stream)
        if seed not in compared:
            compared.add(seed)
            streams_with.update(events.keys())
            streams_with["aux" if stream.samples[0][1] is not None else "no aux"] += 1
            streams_with["one class" if len(stream.texts) == 1 else "several classes"] += 1
            streams_with["several views kept" if len(stream.samples[0][0]) >= 20 else "one view kept"] += 1

    agrees()

    # The comparison is worth little unless the streams take every branch of the method, each of them often.
    print(f"{len(compared)} streams compared, of them with", dict(sorted(streams_with.items())))
    assert len(compared) >= 200
    for space in ("css", "afv"):
        for event in EVENTS:
            assert streams_with[f"{space}: {event}"] >= 20, f"{space}: {event}"
    for kind in ("aux", "no aux", "one class", "several classes", "several views kept", "one view kept"):
        assert streams_with[kind] >= 20, kind


def test_it_agrees_with_the_equations_below_zero() -> None:
    @many(STREAMS // 10)
    @given(seed=SEEDS)
    def agrees(seed: int) -> None:
        check_stream(random_stream(seed, below_zero=True))

    agrees()


@pytest.mark.parametrize("preset", [PAPER, OFFICIAL])
def test_a_preset_sets_known_parameters_and_no_others(preset: dict[str, Any]) -> None:
    assert set(preset) <= set(values(Cosmic()))
    given = Cosmic(**preset)
    for name in values(given):
        assert getattr(given, name) == preset.get(name, getattr(Cosmic(), name)), name
