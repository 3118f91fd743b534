"""The actor of a session, without a cluster: what it opens, answers twice, and sends."""

from __future__ import annotations

import pickle
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cosmic_tta.core.errors import CosmicError, LockedError, SessionError
from cosmic_tta.sessions.session import Session
from cosmic_tta.sessions.session_info import StepResult
from tests.support.small_session import small_samples, small_session

pytestmark = pytest.mark.scale
pytest.importorskip("ray", reason="ray is not installed")

METHODS = ("cosmic", "tda", "bayes_means", "dmn")


@pytest.fixture(params=METHODS)
def session(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Session]:
    with small_session(tmp_path / "session", request.param) as session:
        yield session


def actor_of(folder: Path) -> Any:
    from cosmic_tta.distributed.session_actor import SessionActor

    return SessionActor(str(folder), 0.0, None)


def assert_same(results: list[StepResult], expected: list[StepResult]) -> None:
    for one, other in zip(results, expected, strict=True):
        assert (one.number, one.learned, one.reason) == (other.number, other.learned, other.reason)
        assert np.array_equal(one.prediction.scores, other.prediction.scores)
        assert one.prediction.why == other.prediction.why


def test_a_session_is_opened_when_another_process_releases_it(tmp_path: Path) -> None:
    from cosmic_tta.distributed.session_actor import open_when_free

    first = small_session(tmp_path / "session")
    first.step(small_samples()[:3])
    release = threading.Timer(0.5, first.close)
    release.start()
    start = time.monotonic()
    with open_when_free(tmp_path / "session", 30.0) as second:
        assert second.number == 3
    release.join()
    assert time.monotonic() - start >= 0.4


def test_a_session_that_stays_locked_is_refused_after_a_while(tmp_path: Path) -> None:
    from cosmic_tta.distributed.session_actor import open_when_free

    with small_session(tmp_path / "session"), pytest.raises(LockedError):
        open_when_free(tmp_path / "session", 0.3)


def test_steps_in_the_journal_are_answered_as_before(session: Session) -> None:
    from cosmic_tta.distributed.session_actor import journaled_results

    samples = small_samples()
    session.step(samples[:30])
    expected = session.step(samples[30:35])
    digest = session.digest()
    assert_same(journaled_results(session, 30, samples[30:35]), expected)
    session.pause()
    paused = session.step(samples[35:37])
    assert_same(journaled_results(session, 36, samples[35:37]), paused)
    assert_same(journaled_results(session, 30, samples[30:35]), expected)
    session.resume()
    assert digest != session.digest()
    assert session.number == 39


def test_other_events_in_the_journal_are_refused(session: Session) -> None:
    from cosmic_tta.distributed.session_actor import journaled_results

    samples = small_samples()
    session.step(samples[:5])
    session.pause()
    for after, asked in ((0, samples[1:3]), (3, samples[3:7]), (5, samples[5:6])):
        with pytest.raises(SessionError, match=f"the events after {after} are not those asked for"):
            journaled_results(session, after, asked)


def test_a_prediction_is_sent_with_its_explanation(session: Session) -> None:
    from cosmic_tta.distributed.session_actor import _portable

    for result in session.step(small_samples()[:20]):
        sent = pickle.loads(pickle.dumps(_portable(result.prediction)))
        assert np.array_equal(sent.scores, result.prediction.scores)
        assert sent.parts.keys() == result.prediction.parts.keys()
        assert sent.why == result.prediction.why
    assert sent.why.plain(), "nothing was compared"


def test_a_repeated_step_is_learned_once(tmp_path: Path) -> None:
    small_session(tmp_path / "session", "cosmic").close()
    actor, samples = actor_of(tmp_path / "session"), small_samples()
    first = actor.step(0, samples[:4], {}, False)
    assert (first.progress.number, first.progress.seen) == (4, 4)
    second = actor.step(0, samples[:4], {}, True)
    assert second.progress == first.progress
    assert_same(second.result, first.result)
    third = actor.step(4, samples[4:6], {}, True)  # the first call never arrived
    assert third.progress.number == 6
    assert isinstance(actor.step(4, samples[4:6], {}, False).result, SessionError)
    assert actor.change(6, "pause", (), {}, False).progress.paused
    assert actor.change(6, "pause", (), {}, True).progress.number == 7
    actor.call("close")


def test_errors_are_returned_and_name_the_state_of_the_session(tmp_path: Path) -> None:
    from cosmic_tta.distributed.session_actor import NOT_OPEN

    reply = actor_of(tmp_path / "missing").describe()
    assert isinstance(reply.result, CosmicError)
    assert reply.progress == NOT_OPEN
    small_session(tmp_path / "session").close()
    actor = actor_of(tmp_path / "session")
    assert actor.describe().result.name == "small"
    reply = actor.change(0, "roll_back", ("no such snapshot",), {}, False)
    assert isinstance(reply.result, CosmicError)
    assert reply.progress.number == 0
    assert not reply.progress.closed
    actor.call("close")
    assert actor.read("seen").result == 0  # opened again
    actor.call("close")
