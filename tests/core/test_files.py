from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from cosmic_tta.core import files
from cosmic_tta.core.errors import LockedError, StorageError


@pytest.mark.parametrize(
    ("content", "stored"),
    [(b"\x00\xff", b"\x00\xff"), ("grün\n", "grün\n".encode()), ("lone \udc80", b"lone \\udc80"), (b"", b"")],
)
@pytest.mark.parametrize("durable", [True, False])
def test_bytes_and_text_are_written_whole(tmp_path: Path, content: bytes | str, stored: bytes, durable: bool) -> None:
    files.write_atomic(tmp_path / "file", content, durable=durable)
    files.write_atomic(str(tmp_path / "file"), content, durable=durable)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_bytes() == stored


def test_a_durable_write_syncs_the_file_and_then_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    fsync, replace = os.fsync, os.replace

    def recorded_fsync(handle: int) -> None:
        calls.append("folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else "file")
        fsync(handle)

    def recorded_replace(old: Any, new: Any) -> None:
        calls.append("rename")
        replace(old, new)

    monkeypatch.setattr(os, "fsync", recorded_fsync)
    monkeypatch.setattr(os, "replace", recorded_replace)
    files.write_atomic(tmp_path / "file", b"1")
    assert calls == ["file", "rename", "folder"]
    calls.clear()
    files.write_atomic(tmp_path / "file", b"2", durable=False)
    assert calls == ["rename"]


@pytest.mark.parametrize("call", ["open", "write", "fsync", "replace"])
def test_a_refused_write_leaves_the_previous_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    file = tmp_path / "file"
    files.write_atomic(file, "before")

    def refuse(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(os, call, refuse)
        with pytest.raises(StorageError, match=r"cannot write '.*file': No space left on device"):
            files.write_atomic(file, "after")
    assert file.read_text() == "before"
    assert list(tmp_path.iterdir()) == [file]


def test_a_file_has_the_permissions_that_the_user_asked_for(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        files.write_atomic(tmp_path / "file", b"")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o640


def test_a_short_write_goes_on_with_the_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda handle, data: write(handle, bytes(data[:2])))
    files.write_atomic(tmp_path / "file", b"abcde")
    assert files.read_all(tmp_path / "file") == b"abcde"
    monkeypatch.setattr(os, "write", lambda handle, data: 0)
    with pytest.raises(StorageError, match="the system took no bytes"):
        files.write_atomic(tmp_path / "file", b"later")


def test_a_missing_file_and_a_refusing_disk_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        files.read_all(tmp_path / "absent")
    with pytest.raises(StorageError, match="cannot read"):
        files.read_all(tmp_path)
    files.remove(tmp_path / "absent")  # nothing to do
    refusals: list[Callable[[], None]] = [
        lambda: files.remove(tmp_path),
        lambda: files.move(tmp_path / "absent", tmp_path / "b"),
        lambda: files.truncate_file(tmp_path / "absent", 0),
        lambda: files.make_folder(tmp_path),
    ]
    for refused in refusals:
        with pytest.raises(StorageError, match="cannot (remove|rename|truncate|make)"):
            refused()


def test_a_folder_has_one_writer(tmp_path: Path) -> None:
    pytest.importorskip("fcntl")
    lock = files.Lock(tmp_path, "the store")
    with pytest.raises(LockedError, match=f"the store .* is in use by process {os.getpid()}; one process per folder"):
        files.Lock(tmp_path, "the store")
    lock.release()
    lock.release()
    files.Lock(tmp_path, "the store").release()


def test_damaged_and_unfinished_files_are_set_aside(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    files.truncate_file(tmp_path / "a", 1)
    files.quarantine(tmp_path / "a")
    (tmp_path / ".b.0.unfinished").write_bytes(b"half")
    files.clear_unfinished(tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"a.damaged": b"a"}
    files.remove_folder(tmp_path)
    files.remove_folder(tmp_path)
    assert not tmp_path.exists()


def test_a_folder_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    def fill(folder: Path, *, fail: bool) -> None:
        (folder / "a").write_bytes(b"first")
        if fail:
            raise KeyboardInterrupt
        (folder / "b").write_bytes(b"second")

    for fail in (True, False):
        with suppress(KeyboardInterrupt), files.new_folder(tmp_path / "deep" / "new") as folder:
            fill(folder, fail=fail)
        there = {path.name for path in (tmp_path / "deep").rglob("*")}
        assert there == (set() if fail else {"new", "a", "b"})
    with pytest.raises(StorageError, match="cannot rename"), files.new_folder(tmp_path / "deep" / "new") as folder:
        (folder / "c").write_bytes(b"late")
    assert {path.name for path in (tmp_path / "deep").rglob("*")} == {"new", "a", "b"}
