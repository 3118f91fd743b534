from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from cosmic_tta.core.errors import LockedError, SessionDamagedError, SessionError
from cosmic_tta.sessions.session import Session
from cosmic_tta.sessions.store import Store
from tests.support.session_damage import as_journal_format, as_session_format
from tests.support.small_session import contents, small_method, small_pack, small_samples

pytestmark = pytest.mark.pathless


def made(store: Store, name: str) -> str:
    return store.create(name, small_pack().task(), small_method("tda"), metadata={"n": name})


def test_sessions_are_found_again(tmp_path: Path) -> None:
    with Store(tmp_path / "data") as store:
        keys = [made(store, name) for name in ("a", "../../b", "c")]
        for key in keys:
            store.get(key).step(small_samples()[:5])
        digests = {key: session.digest() for key, session in store.sessions().items()}
        with pytest.raises(SessionError, match="there is a stream named 'a' already"):
            made(store, "a")
        assert store.id_of("../../b") == keys[1]
        assert store.id_of("x") is None
    assert sorted(path.name for path in (tmp_path / "data").iterdir()) == sorted([*keys, "lock"])
    assert [path.name for path in tmp_path.iterdir()] == ["data"]
    with Store(tmp_path / "data") as store:
        store.open_all()
        store.open_all()
        assert {key: session.digest() for key, session in store.sessions().items()} == digests
        for key in ("x", "../data", keys[0][:-1], ""):
            with pytest.raises(SessionError, match="no stream"):
                store.get(key)
        store.delete(keys[0])
        with pytest.raises(SessionError, match="no stream"):
            store.delete(keys[0])
        store.get(keys[1]).export(tmp_path / "file")
        other = store.import_(tmp_path / "file", "again")
        assert store.get(other).digest() == digests[keys[1]]
        with pytest.raises(SessionError, match="already"):
            store.import_(tmp_path / "file", "again")
    with Store(tmp_path / "data") as store:
        store.open_all()
        assert set(store.sessions()) == {keys[1], keys[2], other}


def test_a_second_process_is_refused(tmp_path: Path) -> None:
    code = f"from cosmic_tta.sessions.store import Store; Store({str(tmp_path)!r})"
    with Store(tmp_path):
        with pytest.raises(LockedError, match="the data folder"):
            Store(tmp_path)
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert "is in use by process" in done.stderr
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_damaged_session_is_listed_and_the_others_continue(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        good, bad = made(store, "good"), made(store, "bad")
        for key in (good, bad):
            for sample in small_samples()[:6]:
                store.get(key).step([sample])
    journal = next((tmp_path / bad).glob("journal*"))
    content = bytearray(journal.read_bytes())
    content[len(content) // 2] ^= 1
    journal.write_bytes(bytes(content))
    with Store(tmp_path) as store:
        store.open_all()
        assert set(store.sessions()) == {good}
        problem = store.damaged()[bad]
        assert isinstance(problem, SessionDamagedError)
        assert problem.recoverable == 1
        assert store.name_of(bad) == "bad"
        with pytest.raises(SessionDamagedError, match="up to event 1 can be recovered"):
            store.get(bad)
        with pytest.raises(SessionError, match="already"):
            made(store, "bad")
        with pytest.raises(SessionDamagedError):
            store.reopen(bad)
        with pytest.raises(SessionError, match="is not damaged"):
            store.recover(good)
        store.get(good).step(small_samples()[6:7])
        assert store.recover(bad).number == 1
        assert store.damaged() == {}
        assert store.reopen(good).number == 7
        with pytest.raises(SessionError, match="no stream"):
            store.reopen("x")
        store.delete(bad)


def test_unfinished_and_removed_folders_are_deleted(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        key = made(store, "a")
    for name in (f".{'0' * 32}.removed", f".{'1' * 32}.abc.unfinished"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_bytes(b"x")
    (tmp_path / "notes").mkdir()
    with Store(tmp_path) as store:
        store.open_all()
        assert set(store.sessions()) == {key}
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([key, "lock", "notes"])


def test_unsynced_events_are_synced_within_about_a_second(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        key = store.create("a", small_pack().task(), small_method("tda"), policy="everysec")
        session = store.get(key)
        assert isinstance(session, Session)
        session.step(small_samples()[:3])
        assert session._journal.synced == 0
        end = time.monotonic() + 20
        while session._journal.synced < 3 and time.monotonic() < end:
            time.sleep(0.05)
        assert session._journal.synced == 3


def test_a_session_whose_folder_cannot_be_made_leaves_nothing(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        with pytest.raises(SessionError):
            made(store, "")
        assert contents(tmp_path) == {}
        assert store.sessions() == {}


def test_a_session_that_a_defect_keeps_closed_is_listed_as_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store(tmp_path / "data") as store:
        keys = [store.create(name, small_pack().task(), small_method("tda"), every=100) for name in ("one", "two")]
        for key in keys:
            store.get(key).step(small_samples()[:5])
    opened = Session.open

    def half(folder: Path, **how: Any) -> Session:
        if Path(folder).name == keys[0]:
            raise ZeroDivisionError("a defect")
        return opened(folder, **how)

    monkeypatch.setattr(Session, "open", half)
    with Store(tmp_path / "data") as store:
        store.open_all()
        assert list(store.damaged()) == [keys[0]]
        assert "ZeroDivisionError: a defect" in str(store.damaged()[keys[0]])
        assert store.name_of(keys[0]) == "one"
        assert store.get(keys[1]).number == 5


@pytest.mark.parametrize("part", ["session", "journal"])
def test_a_session_of_another_format_stays_as_it_is_and_the_others_open(tmp_path: Path, part: str) -> None:
    with Store(tmp_path) as store:
        good, old = made(store, "good"), made(store, "old")
        for key in (good, old):
            store.get(key).step(small_samples()[:5])
    as_format, pattern = {
        "session": (as_session_format, "snapshot-*"),
        "journal": (as_journal_format, "journal-*"),
    }[part]
    for path in (tmp_path / old).glob(pattern):
        path.write_bytes(as_format(path.read_bytes(), 1))
    before = contents(tmp_path / old)
    with Store(tmp_path) as store:
        store.open_all()
        assert set(store.sessions()) == {good}
        store.get(good).step(small_samples()[5:6])
        problem = store.damaged()[old]
        assert f"has {part} format 1; this version reads format 2." in str(problem)
        assert getattr(problem, "recoverable", None) is None
        assert store.name_of(old) == "old"
        with pytest.raises(SessionError, match="format 1"):
            store.recover(old)
    assert contents(tmp_path / old) == before


def test_an_exported_file_of_another_format_is_not_imported(tmp_path: Path) -> None:
    with Store(tmp_path / "data") as store:
        good = made(store, "good")
        store.get(good).export(tmp_path / "file")
        (tmp_path / "file").write_bytes(as_session_format((tmp_path / "file").read_bytes(), 1))
        before = (tmp_path / "file").read_bytes()
        with pytest.raises(SessionError, match=r"file' has session format 1; this version reads format 2\.$"):
            store.import_(tmp_path / "file", "old")
        assert (tmp_path / "file").read_bytes() == before
    with Store(tmp_path / "data") as store:
        store.open_all()
        assert set(store.sessions()) == {good}
