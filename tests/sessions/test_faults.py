"""A disk fails at every single call: the error is clean, the old state stays, and the session continues."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from shutil import copytree, rmtree
from typing import Any

import pytest

from cosmic_tta.core.errors import SessionError, StorageError
from cosmic_tta.sessions.session import Session
from tests.support.small_session import (
    Action,
    FaultyOs,
    faulty_disk,
    in_memory,
    script,
    small_samples,
    small_session,
    undisturbed,
)

pytestmark = pytest.mark.pathless
HOW: dict[str, Any] = {"every": 4, "keep": 2}
WHOLE = bool(os.environ.get("COSMIC_TTA_TORTURE"))  # `make torture` tries more


def short_script() -> list[Action]:
    """Every kind of event once."""
    steps, rest = script()[:3], script()[6:14]
    return [*steps, *rest, *script()[18:]]


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    with in_memory("faults-") as folder:
        yield Path(folder)


@pytest.fixture(scope="module")
def digests(tmp_path_factory: pytest.TempPathFactory) -> dict[int, str]:
    with faulty_disk(FaultyOs(at=0)):
        return undisturbed(tmp_path_factory.mktemp("faults") / "whole", short_script(), **HOW)


def tried(session: Session, action: Action, faults: FaultyOs) -> bool:
    """Do something; if the disk refuses, nothing may have changed. Return whether it did."""
    before = session.digest(), session.number
    try:
        action(session)
    except StorageError:
        pass
    else:
        return False
    assert (session.digest(), session.number) == before
    return True


def run(folder: Path, faults: FaultyOs, digests: dict[int, str], policy: str) -> int:
    """Run the script on a disk with faults; return how many calls were refused in the open."""
    refused = 0
    with faulty_disk(faults):
        try:
            session = small_session(folder, policy=policy, **HOW)
        except StorageError:
            refused += 1
            faults.broken = False
            if folder.exists():  # complete, but the caller got an error
                Session.open(folder).close()
                rmtree(folder)
            assert not folder.exists()
            session = small_session(folder, policy=policy, **HOW)
        for action in short_script():
            if tried(session, action, faults):
                refused += 1
                if faults.lasting and faults.broken:
                    assert tried(session, action, faults)  # and again, while it lasts
                    copy = folder.with_name("copy")
                    copytree(folder, copy, ignore=lambda *_: ["lock"])
                    faults.broken = False
                    with Session.open(copy) as crashed:  # had it been killed now
                        assert crashed.digest() == digests[crashed.number]
                        assert session.number <= crashed.number <= session.number + 1
                    rmtree(copy)
                faults.broken = False
                assert not tried(session, action, faults)
            assert session.digest() == digests[session.number]
        faults.broken = False
        session.abandon()
        session = Session.open(folder)
        assert session.digest() == digests[max(digests)]
        session.step(small_samples()[40:43])
        session.close()
    return refused


FAULTS: dict[str, dict[str, Any]] = {
    "an error once": {"code": errno.EIO},
    "a short write, then full": {"code": errno.ENOSPC, "short": True},
    "full for a while": {"code": errno.ENOSPC, "lasting": True},
}


@pytest.mark.parametrize(
    ("fault", "policy"),
    [(fault, policy) for fault in FAULTS for policy in ("always", "everysec") if WHOLE or policy == "always"],
)
def test_a_fault_at_every_call(fault: str, policy: str, digests: dict[int, str], tmp_path: Path) -> None:
    counting = FaultyOs(at=0, short=FAULTS[fault].get("short", False))
    run(tmp_path / "s", counting, digests, policy)
    rmtree(tmp_path / "s")
    refused = 0
    assert counting.calls > 100
    for at in range(1, counting.calls + 1):
        refused += run(tmp_path / "s", FaultyOs(at, **FAULTS[fault]), digests, policy)
        rmtree(tmp_path / "s")
    assert refused > 20


def test_a_fault_at_every_call_of_opening(digests: dict[int, str], tmp_path: Path) -> None:
    with faulty_disk(FaultyOs(at=0)):
        undisturbed(tmp_path / "whole", [*short_script()], every=1000)
    last = max((tmp_path / "whole").glob("journal*"))
    last.write_bytes(last.read_bytes()[:-5])  # a torn tail, so that there is something to mend
    copytree(tmp_path / "whole", tmp_path / "s")
    with faulty_disk(FaultyOs(at=0)) as counting:
        Session.open(tmp_path / "s").close()
    rmtree(tmp_path / "s")
    assert counting.calls > 5
    for at in range(1, counting.calls + 1):
        copytree(tmp_path / "whole", tmp_path / "s")
        with faulty_disk(FaultyOs(at)):
            with suppress(StorageError):
                Session.open(tmp_path / "s").close()
            with Session.open(tmp_path / "s") as session:
                assert session.digest() == digests[max(digests) - 1]
        rmtree(tmp_path / "s")


def test_a_failed_periodic_sync_is_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cosmic_tta.sessions.journal.writer.SYNC_INTERVAL", 1e9)
    session = small_session(tmp_path / "s", policy="everysec")
    session.step(small_samples()[:5])
    digest = session.digest()
    monkeypatch.setattr("cosmic_tta.sessions.journal.writer.SYNC_INTERVAL", 0.0)
    with faulty_disk(FaultyOs(1, lasting=True)) as faults:
        for _ in range(2):
            with pytest.raises(StorageError):
                session.tick()
        faults.broken = False
        session.tick()  # writes it all again
    assert session.digest() == digest
    session.abandon()
    with Session.open(tmp_path / "s") as again:
        assert again.digest() == digest


def test_a_disk_that_fails_on_close_still_unlocks_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cosmic_tta.sessions.journal.writer.SYNC_INTERVAL", 1e9)
    session = small_session(tmp_path / "s", policy="everysec")
    session.step(small_samples()[:5])
    with faulty_disk(FaultyOs(1, lasting=True)), pytest.raises(StorageError):
        session.close()
    with pytest.raises(SessionError, match="closed"):
        session.step(small_samples()[:1])
    Session.open(tmp_path / "s").close()  # the lock is released all the same
