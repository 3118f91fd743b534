"""Any sequence of events with crashes in between gives the same as without crashes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cosmic_tta.core.errors import CosmicError, SessionError
from cosmic_tta.core.state_tree import state_digest
from cosmic_tta.sessions.session import Session
from tests.support.small_session import (
    FaultyOs,
    faulty_disk,
    in_memory,
    other_task,
    renaming,
    small_samples,
    small_session,
)

pytestmark = pytest.mark.pathless
SOURCES = (None, "one", "two")
EVENTS = st.one_of(
    st.tuples(st.just("step"), st.integers(0, 79), st.integers(1, 4), st.sampled_from(SOURCES)),
    st.tuples(st.just("step"), st.integers(0, 79), st.just(1), st.sampled_from(SOURCES)),
    st.tuples(st.just("label"), st.integers(1, 40), st.integers(0, 3)),
    st.tuples(st.sampled_from(["pause", "resume", "reset", "snapshot", "crash", "crash", "rename"])),
    st.tuples(st.just("roll back"), st.integers(0, 3)),
    st.tuples(st.just("classes"), st.one_of(st.none(), st.integers(0, 2)), st.integers(0, 2)),
    st.tuples(st.just("forget source"), st.sampled_from(SOURCES[1:])),
)
METHODS = st.sampled_from(["tda", "dmn", "cosmic", "bayes_means", "cosmic@official"])


def do(session: Session, event: tuple[Any, ...]) -> None:
    kind, *how = event
    if kind == "step":
        first, count, source = how
        samples = [small_samples()[(first + one) % 80] for one in range(count)]
        session.step(samples, sources=[source] * count)
    elif kind == "label":
        session.label(how[0], session.task.class_names[how[1] % session.task.classes])
    elif kind == "snapshot":
        session.snapshot(f"at {session.number}")
    elif kind == "roll back":
        pinned = [one.id for one in session.snapshots() if one.note]
        if pinned:
            session.roll_back(pinned[how[0] % len(pinned)])
    elif kind == "classes":
        gone = None if session.task.classes == 1 else how[0]
        new = tuple(f"new {number}" for number in range(how[1]))
        new = tuple(name for name in new if name not in session.task.class_names)
        session.change_classes(other_task(session, gone, new))
    elif kind == "rename":
        renaming(session)
    elif kind == "forget source":
        session.forget_source(how[0])
    else:
        getattr(session, str(kind))()


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(spec=METHODS, events=st.lists(EVENTS, min_size=3, max_size=25))
def test_crashes_change_nothing(spec: str, events: list[tuple[Any, ...]]) -> None:
    with in_memory("property-") as name, faulty_disk(FaultyOs(at=0)):
        folder = Path(name)
        undisturbed, crashing = (
            small_session(folder / "undisturbed", spec, keep=99),
            small_session(folder / "crashing", spec, every=5, keep=3),
        )
        for event in events:
            if event[0] == "crash":
                crashing.abandon()
                crashing = Session.open(folder / "crashing")
            else:
                errors = []
                for session in (undisturbed, crashing):
                    try:
                        do(session, event)
                        errors.append("")
                    except CosmicError as error:
                        errors.append(str(error))
                if errors[0] != errors[1]:  # the journal of the other one does not reach back as far
                    assert "do not reach back" in errors[1]
                    return
            assert (crashing.number, crashing.digest()) == (undisturbed.number, undisturbed.digest())
        crashing.abandon()
        with Session.open(folder / "crashing") as again:
            assert again.digest() == undisturbed.digest()
        undisturbed.close()


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(spec=METHODS, events=st.lists(EVENTS, min_size=5, max_size=25))
def test_a_forgotten_source_equals_one_that_never_came(spec: str, events: list[tuple[Any, ...]]) -> None:
    with in_memory("property-") as name, faulty_disk(FaultyOs(at=0)):
        folder = Path(name)
        whole, clean = (small_session(folder / which, spec, every=6, keep=99) for which in ("whole", "clean"))
        for event in events:
            if event[0] in ("label", "crash") or event == ("forget source", "two"):
                continue
            try:
                do(whole, event)
            except CosmicError:
                continue
            if not (event[0] == "step" and event[3] == "two"):
                do(clean, event)
        if "two" in whole.sources:
            try:
                whole.forget_source("two")
            except SessionError as error:
                pytest.fail(str(error))
        assert state_digest(whole.state) == state_digest(clean.state)
        assert whole.task.class_names == clean.task.class_names
        whole.close()
        clean.close()
