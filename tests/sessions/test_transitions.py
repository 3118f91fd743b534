from __future__ import annotations

import numpy as np

from cosmic_tta.core.state_tree import state_digest
from cosmic_tta.sessions import events
from cosmic_tta.sessions.admission import AdmissionPolicy
from cosmic_tta.sessions.journal.format import Record
from cosmic_tta.sessions.session_file import AdaptationState
from cosmic_tta.sessions.transitions import apply_samples, reset_state, with_classes
from tests.support.small_session import small_method, small_pack, small_samples


def small_adaptation() -> AdaptationState:
    method, task, guard = small_method("tda"), small_pack().task(), AdmissionPolicy()
    return AdaptationState(method, method.init(task), {"place": "gate"}, guard, guard.init(task))


def learn(adaptation: AdaptationState, samples: int) -> list[str]:
    numbers = list(range(1, samples + 1))
    sources = ["one" if number % 2 else None for number in numbers]
    answers = apply_samples(adaptation, events.STEP, numbers, small_samples()[:samples], sources)
    return [answer.reason for answer in answers]


def test_samples_are_learned_from_unless_the_stream_is_paused_or_they_repeat() -> None:
    adaptation = small_adaptation()
    assert learn(adaptation, 3) == ["", "", ""]
    assert adaptation.sources == {"one": [1, 2]}
    digest = state_digest(adaptation.state)
    sample = small_samples()[4]
    assert apply_samples(adaptation, events.PAUSED_STEP, [4], [sample], ["two"])[0].reason == "paused"
    assert apply_samples(adaptation, events.STEP, [5], small_samples()[:1], [None])[0].reason == "duplicate"
    assert state_digest(adaptation.state) == digest
    assert adaptation.sources == {"one": [1, 2]}


def test_a_reset_forgets_what_was_learned_and_keeps_the_rest() -> None:
    adaptation = small_adaptation()
    empty = state_digest(adaptation.state)
    learn(adaptation, 10)
    assert state_digest(adaptation.state) != empty
    after = reset_state(adaptation)
    assert state_digest(after.state) == empty
    assert (after.sources, after.metadata, after.method) == ({}, {"place": "gate"}, adaptation.method)
    assert learn(after, 1) == [""]  # the memory of duplicates is empty too


def test_classes_that_stay_keep_what_was_learned_under_their_new_place() -> None:
    adaptation = small_adaptation()
    learn(adaptation, 20)
    task = adaptation.state.task
    order = np.arange(task.classes)[::-1]
    names = [task.class_names[index] for index in order]
    record = Record(events.CLASSES_CHANGED, {"class_names": names, "renamed": {}}, {"text": task.text[order]})
    after = with_classes(adaptation, record)
    assert list(after.state.task.class_names) == names
    assert after.metadata == {"place": "gate"}
    before = adaptation.method.peek(adaptation.state, small_samples()[30]).scores
    np.testing.assert_allclose(after.method.peek(after.state, small_samples()[30]).scores, before[order], atol=1e-6)
