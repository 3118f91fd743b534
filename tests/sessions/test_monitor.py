from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cosmic_tta.core.errors import InputError
from cosmic_tta.core.explanation import Explanation
from cosmic_tta.core.state_tree import state_digest
from cosmic_tta.sessions.monitor import WINDOW
from cosmic_tta.sessions.session import Session
from tests.support.small_session import small_method, small_pack, small_samples, small_session

pytestmark = pytest.mark.pathless


def test_the_monitor_remembers_the_last_few_thousand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cosmic_tta.sessions.monitor.WINDOW", 10)
    assert WINDOW == 4096
    session = small_session(tmp_path / "s", "zero_shot@default", every=7)
    for sample in small_samples()[:25]:
        session.step([sample], tags=["t"])
    assert [one.number for one in session.monitor.recent()] == list(range(25, 15, -1))
    with pytest.raises(ValueError, match="the last 10 answers can be labelled"):
        session.label(15, session.task.class_names[0])
    session.label(16, session.task.class_names[0])
    digest = session.digest()
    session.abandon()
    with Session.open(tmp_path / "s") as again:
        assert again.digest() == digest
        assert again.monitor.describe() == session.monitor.describe()


def test_labels_are_for_the_monitor_alone(tmp_path: Path) -> None:
    session = small_session(tmp_path / "s", "bayes_means@default")
    answers = session.step(small_samples()[:30])
    learned = state_digest(session.state)
    names = session.task.class_names
    labels = small_pack().labels
    assert labels is not None
    for answer, label in zip(answers, labels, strict=False):
        session.label(answer.number, names[label])
    right = sum(a.prediction.label == label for a, label in zip(answers, labels, strict=False))
    zero = sum(
        int(a.prediction.parts["zero_shot"].argmax()) == label for a, label in zip(answers, labels, strict=False)
    )
    assert session.monitor.accuracy == right / 30
    assert session.monitor.zero_shot_accuracy == zero / 30
    assert state_digest(session.state) == learned
    wrong = names[(answers[0].prediction.label + 1) % 4]
    session.label(1, wrong)  # the last word counts
    session.label(1, wrong)
    assert session.monitor.counts["labelled"] == 30
    session.labels((answer.number, names[label]) for answer, label in zip(answers[5:9], labels[5:9], strict=True))
    with pytest.raises(InputError, match="is no class"):
        session.labels([(2, names[0]), (3, "nothing")])
    session.labels([])
    described = session.monitor.describe()
    assert sum(row["count"] for row in described["confusions"]) == 30
    assert {"label": wrong, "answer": names[answers[0].prediction.label]}.items() <= max(
        described["confusions"],
        key=lambda row: row["label"] == wrong and row["answer"] == names[answers[0].prediction.label],
    ).items()
    latest = next(session.monitor.recent())
    assert (latest.number, latest.learned) == (30, True)
    session.close()


def test_an_alarm_names_the_event_that_raised_it(tmp_path: Path) -> None:
    pack = small_pack()
    with small_session(tmp_path / "s") as session:
        session.step(small_samples(), sources=None)
        session.labels([(number, pack.class_names[0]) for number in range(1, 41)])  # events that are no image
        moved = [type(one)(np.roll(one.clip, 5, axis=1), one.aux) for one in small_samples() * 4]
        for one in moved:
            session.step([one])
            if session.alarms():
                break
        (alarm,) = session.alarms()
        assert session.number - 8 < alarm.since <= session.number


def test_a_fallback_answer_is_not_explained_by_the_state(tmp_path: Path) -> None:
    with small_session(tmp_path / "s", "cosmic") as session:
        session.step(small_samples()[:30])
        assert session.step(small_samples()[30:31])[0].prediction.why.plain() != Explanation().plain()
        assert not session.health.fallen_back
        session.monitor.fallback_since = 3
        assert session.health.fallen_back
        (answered,) = session.step(small_samples()[31:32])
        np.testing.assert_array_equal(answered.prediction.scores, answered.prediction.parts["zero_shot"])
        assert answered.prediction.why.plain() == Explanation().plain()


def test_labels_that_show_harm_make_zero_shot_answer(tmp_path: Path) -> None:
    samples = small_samples()
    with Session.create(tmp_path / "s", "s", small_pack().task(), small_method("tda")) as session:
        names = session.task.class_names
        session.step(samples[:60])
        recent = list(session.monitor.recent())
        differ = [one for one in recent if one.answer != one.zero_shot]
        if len(differ) < 10:
            # The method agrees with zero-shot nearly always: make the monitor remember otherwise.
            for row in range(12):
                session.monitor._columns["zero_shot"][row] = (session.monitor._columns["answer"][row] + 1) % len(names)
            differ = [one for one in session.monitor.recent() if one.answer != one.zero_shot]
        assert session.alarms() == []
        for one in differ[:12]:
            session.label(one.number, one.zero_shot)
        (alarm,) = session.alarms()
        assert alarm.kind == "harm"
        seen = session.seen
        answered = session.step([samples[61]])[0]
        np.testing.assert_array_equal(answered.prediction.scores, answered.prediction.parts["zero_shot"])
        np.testing.assert_array_equal(session.peek([samples[61]])[0].scores, answered.prediction.scores)
        assert session.seen == seen
        session.resume()
        assert session.alarms() == []
        assert session.step([samples[62]])[0].learned


def test_labels_that_show_no_harm_change_nothing(tmp_path: Path) -> None:
    with Session.create(tmp_path / "s", "s", small_pack().task(), small_method("tda")) as session:
        session.step(small_samples()[:60])
        for one in list(session.monitor.recent()):
            session.label(one.number, one.answer)
        assert session.alarms() == []
