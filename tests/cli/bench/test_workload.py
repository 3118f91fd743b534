from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cosmic_tta.cli.bench import workload
from cosmic_tta.cli.bench.workload import (
    FeatureStream,
    Textbook,
    official_cosmic,
    state_with_full_caches,
    state_with_graphs,
    supported_method,
)
from cosmic_tta.methods import make_method


def test_full_caches_are_full() -> None:
    stream, method = FeatureStream(5, 16, 8), official_cosmic(3)
    state = state_with_graphs(method, stream)
    assert state.css.memory.cache.filled().all()
    assert state.afv.memory.cache.filled().all()
    graphs = state.css.hyperclasses, state.afv.hyperclasses
    method.steps(state, stream.take(99))  # the schedule builds the next graphs after these
    assert (state.css.hyperclasses is graphs[0], state.afv.hyperclasses is graphs[1]) == (True, True)
    method.steps(state, stream.take(1))
    assert (state.css.hyperclasses is graphs[0], state.afv.hyperclasses is graphs[1]) == (False, False)


def test_the_caches_of_tda_and_dmn_are_full() -> None:
    stream = FeatureStream(5, 16, 8)
    tda = state_with_full_caches(make_method("tda"), stream)
    assert tda.positive.filled().all()
    assert tda.negative.filled().all()
    assert state_with_full_caches(make_method("dmn"), stream).memory.cache.filled().all()


def test_a_stream_generates_samples_of_the_given_shapes() -> None:
    stream = FeatureStream(5, 16, 8, views=3)
    samples = stream.take(4)
    assert [sample.clip.shape for sample in samples] == [(3, 16)] * 4
    assert all(sample.aux is not None and sample.aux.shape == (8,) for sample in samples)
    np.testing.assert_allclose(np.linalg.norm(samples[0].clip, axis=1), 1, rtol=1e-5)
    assert all(sample.aux is None for sample in FeatureStream(5, 16, None).take(2))
    with pytest.raises(ValueError, match="no auxiliary features"):
        FeatureStream(5, 16, None).aux([0])


def test_a_few_shot_method_gets_a_generated_support() -> None:
    stream = FeatureStream(5, 16, 8)
    method = supported_method("tip_adapter", stream, shots=2)
    state = method.init(stream.task)
    assert method.step(state, stream.take(1)[0]).scores.shape == (5,)
    assert supported_method("tda", stream, shots=2) == make_method("tda")


def test_a_missing_textbook_is_false_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workload, "TEXTBOOK", Path("nowhere.py"))
    textbook = Textbook()
    assert not textbook
    assert "nowhere.py is not here" in textbook.missing_reason


def test_the_textbook_scores_generated_samples() -> None:
    textbook, stream = Textbook(), FeatureStream(5, 16, 8)
    if not textbook:
        pytest.skip(textbook.missing_reason)
    sample = stream.take(1)[0]
    assert textbook.cosmic(stream.task, shots=2).step(sample.clip, sample.aux)["scores"].shape == (5,)
    tda = textbook.tda(stream)
    assert {label: len(entries) for label, entries in tda.positive.items()} == dict.fromkeys(range(5), 3)
    assert tda.step(sample.clip).shape == (5,)
