from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cosmic_tta.core.errors import InputError, SessionError
from cosmic_tta.sessions.retention import list_snapshots, remove_snapshot, snapshot_number
from cosmic_tta.sessions.session import Session
from cosmic_tta.sessions.session_file import snapshot_path
from tests.support.small_session import contents, small_samples, small_session, write_files

pytestmark = pytest.mark.pathless


def test_pruning_keeps_what_it_promises(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    session = small_session(folder, every=4, keep=3)
    session.step(small_samples()[:1])
    pinned = session.snapshot("pinned")
    for sample in small_samples()[1:40]:
        session.step([sample])
    listed = [one.number for one in session.snapshots()]
    assert listed == [37, 33, 29, pinned.number]
    assert sorted(path.name for path in folder.glob("journal-*")) == [
        f"journal-{number:012d}.log" for number in (30, 34, 38)
    ]
    files = contents(folder)
    digest = session.digest()
    session.close()
    # With the two newest snapshots gone or damaged, the third and the journal still give the same.
    for corruption in (b"", b"nothing", None):
        corrupted = dict(files)
        for number in listed[:2]:
            name = f"snapshot-{number:012d}.safetensors"
            corrupted.pop(name) if corruption is None else corrupted.update({name: corruption})
        write_files(folder, corrupted)
        with Session.open(folder) as again:
            assert again.digest() == digest
            assert len(again.warnings) == (0 if corruption is None else 2)
        with Session.open(folder) as again:
            assert (again.digest(), again.warnings) == (digest, [])


def test_snapshots_by_hand_do_not_shorten_what_can_be_undone(tmp_path: Path) -> None:
    samples = small_samples()
    with small_session(tmp_path / "s", keep=3, every=50) as session:
        session.step(samples[:5], sources=["bad"] * 5)
        for number in range(20):
            session.step([samples[10 + number]], sources=["good"])
            session.snapshot()
        numbers = [one.number for one in session.snapshots()]
        assert numbers == [25, 24, 23, 0]
        session.forget_source("bad")
        with small_session(tmp_path / "other") as other:
            for number in range(20):
                other.step([samples[10 + number]], sources=["good"])
            for name, value in vars(session.state).items():
                if isinstance(value, np.ndarray):
                    np.testing.assert_array_equal(value, vars(other.state)[name])


def test_an_id_that_is_no_snapshot_is_refused(tmp_path: Path) -> None:
    with small_session(tmp_path / "s") as session:
        assert snapshot_number(session.folder, "000000000000") == snapshot_number(session.folder, "0") == 0
        for wrong in ("7", "../lock", "٠", "", "0" * 21, None):
            with pytest.raises(InputError, match="no snapshot"):
                snapshot_number(session.folder, wrong)  # type: ignore[arg-type]


def test_the_newest_snapshot_cannot_be_removed(tmp_path: Path) -> None:
    with small_session(tmp_path / "s") as session:
        session.step(small_samples()[:2])
        newest = session.snapshot()
        with pytest.raises(SessionError, match="a restart begins with it"):
            remove_snapshot(session.folder, newest.id)
        remove_snapshot(session.folder, "000000000000")
        assert [one.number for one in list_snapshots(session.folder)] == [2]


def test_a_snapshot_with_an_unreadable_header_is_not_listed(tmp_path: Path) -> None:
    with small_session(tmp_path / "s") as session:
        session.step(small_samples()[:2])
        session.snapshot()
        snapshot_path(session.folder, 2).write_bytes(b"no header")
        assert [one.number for one in list_snapshots(session.folder)] == [0]
        with pytest.raises(SessionError, match="cannot read the snapshot '2'"):
            session.roll_back("2")
