from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_session import other_task, small_method, small_pack, small_samples

from cosmic_tta import make_method
from cosmic_tta.errors import InputError
from cosmic_tta.guards import Guard
from cosmic_tta.session import Session
from cosmic_tta.state import state_digest

pytestmark = pytest.mark.pathless


def guarded(folder: Path, spec: str = "cosmic", **how: Any) -> Session:
    return Session.create(folder, "guarded", small_pack().task(), small_method(spec), guard=Guard(), **how)


@pytest.mark.parametrize("spec", ["cosmic", "bayes_means", "tda"])
def test_the_same_picture_teaches_once_also_after_a_restart(tmp_path: Path, spec: str) -> None:
    samples = small_samples()
    with guarded(tmp_path / "s", spec, every=7) as session:
        session.step(samples[:10])
        learned = session.seen
        told = session.step([samples[3]] * 40)
        assert {one.reason for one in told} == {"duplicate"}
        assert not any(one.learned for one in told)
        assert session.seen == learned
        assert session.monitor.counts["duplicate"] == 40
        digest = session.digest()
    with Session.open(tmp_path / "s") as session:
        assert session.digest() == digest
        assert session.step([samples[3]])[0].reason == "duplicate"
        assert session.step([samples[20]])[0].learned


def test_a_restart_after_any_event_changes_nothing(tmp_path: Path) -> None:
    """Duplicates, a quota, other classes, a reset: one session is opened anew after each event."""
    samples, digests = small_samples(), []
    events: list[Any] = [
        *(
            lambda session, n=n: session.step([samples[n % 9]], sources=["one" if n % 4 else "other"])
            for n in range(16)
        ),
        lambda session: session.change_classes(other_task(session, 1, ("new",))),
        *(lambda session, n=n: session.step([samples[n % 30]], sources=["third"]) for n in range(8)),
        lambda session: session.reset(),
        *(lambda session, n=n: session.step([samples[n]]) for n in range(4)),
    ]
    with guarded(tmp_path / "whole", every=5) as session:
        for event in events:
            event(session)
            digests.append(session.digest())
    guarded(tmp_path / "cut", every=5).close()
    for event, digest in zip(events, digests, strict=True):
        with Session.open(tmp_path / "cut") as session:
            event(session)
            assert session.digest() == digest


def test_undoing_a_source_gives_what_were_had_it_never_come(tmp_path: Path) -> None:
    samples = small_samples()
    with guarded(tmp_path / "with", every=6, keep=50) as session, guarded(tmp_path / "without") as other:
        for number, sample in enumerate(samples[:40]):
            source = "bad" if number % 5 == 3 else "good"
            session.step([sample], sources=[source])
            session.step([samples[number // 2]], sources=[source])
            if source == "good":
                other.step([sample], sources=[source])
                other.step([samples[number // 2]], sources=[source])
        session.without("bad")
        one, two = session._standing, other._standing
        assert state_digest(one.state) == state_digest(two.state)
        assert state_digest(one.remembered) == state_digest(two.remembered)


def test_labels_that_show_harm_make_zero_shot_answer(tmp_path: Path) -> None:
    samples = small_samples()
    with Session.create(tmp_path / "s", "s", small_pack().task(), small_method("tda")) as session:
        names = session.task.class_names
        session.step(samples[:60])
        remembered = list(session.monitor.recent())
        differ = [one for one in remembered if one.answer != one.zero_shot]
        if len(differ) < 10:
            # The method agrees with zero-shot nearly always: make the monitor remember otherwise.
            for row in range(12):
                session.monitor._rows["zero_shot"][row] = (session.monitor._rows["answer"][row] + 1) % len(names)
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


def test_a_method_with_a_checkpoint_is_refused(tmp_path: Path) -> None:
    class Trained:
        name, needs = "trained", ("checkpoint",)

    with pytest.raises(InputError, match="trained checkpoint"):
        Session.create(tmp_path / "s", "s", small_pack().task(), Trained())  # type: ignore[arg-type]


@pytest.mark.torch
def test_a_method_that_learns_prompts_is_kept_and_opened_with_its_tower(tmp_path: Path) -> None:
    from cosmic_tta.contracts import towered

    pack = towered(small_pack())

    def tower(task: Any) -> Any:
        return pack.task()

    sample = small_samples()[0]
    with Session.create(tmp_path / "s", "s", pack.task(), make_method("tpt"), tower=tower) as session:
        first = session.step([sample])[0].prediction.scores
        digest = session.digest()
    with Session.open(tmp_path / "s", tower=tower) as session:
        assert session.digest() == digest
        np.testing.assert_array_equal(session.peek([sample])[0].scores, first)
