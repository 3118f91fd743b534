from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cosmic_tta import make_method
from cosmic_tta.core.errors import InputError
from cosmic_tta.core.state_tree import state_digest
from cosmic_tta.sessions.admission import AdmissionPolicy
from cosmic_tta.sessions.session import Session
from tests.support.small_session import other_task, small_method, small_pack, small_samples

pytestmark = pytest.mark.pathless


def guarded(folder: Path, spec: str = "cosmic", **how: Any) -> Session:
    return Session.create(folder, "guarded", small_pack().task(), small_method(spec), guard=AdmissionPolicy(), **how)


@pytest.mark.parametrize("spec", ["cosmic", "bayes_means", "tda"])
def test_the_same_image_is_learned_once_also_after_a_restart(tmp_path: Path, spec: str) -> None:
    samples = small_samples()
    with guarded(tmp_path / "s", spec, every=7) as session:
        session.step(samples[:10])
        learned = session.seen
        results = session.step([samples[3]] * 40)
        assert {one.reason for one in results} == {"duplicate"}
        assert not any(one.learned for one in results)
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


def test_forgetting_a_source_also_forgets_its_recent_samples(tmp_path: Path) -> None:
    samples = small_samples()
    with guarded(tmp_path / "with", every=6, keep=50) as session, guarded(tmp_path / "without") as other:
        for number, sample in enumerate(samples[:40]):
            source = "bad" if number % 5 == 3 else "good"
            session.step([sample], sources=[source])
            session.step([samples[number // 2]], sources=[source])
            if source == "good":
                other.step([sample], sources=[source])
                other.step([samples[number // 2]], sources=[source])
        session.forget_source("bad")
        one, two = session._adaptation, other._adaptation
        assert state_digest(one.state) == state_digest(two.state)
        assert state_digest(one.recent_samples) == state_digest(two.recent_samples)


def test_a_method_with_a_checkpoint_is_refused(tmp_path: Path) -> None:
    class Trained:
        name, needs = "trained", ("checkpoint",)

    with pytest.raises(InputError, match="trained checkpoint"):
        Session.create(tmp_path / "s", "s", small_pack().task(), Trained())  # type: ignore[arg-type]


@pytest.mark.torch
def test_a_method_that_learns_prompts_is_kept_and_opened_with_its_tower(tmp_path: Path) -> None:
    from cosmic_tta.evaluation.method_factory import with_random_tower

    pack = with_random_tower(small_pack())

    def tower(task: Any) -> Any:
        return pack.task()

    sample = small_samples()[0]
    with Session.create(tmp_path / "s", "s", pack.task(), make_method("tpt"), tower=tower) as session:
        first = session.step([sample])[0].prediction.scores
        digest = session.digest()
    with Session.open(tmp_path / "s", tower=tower) as session:
        assert session.digest() == digest
        np.testing.assert_array_equal(session.peek([sample])[0].scores, first)
