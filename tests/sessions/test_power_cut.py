"""A power cut loses what was not synced: bytes of files and names in folders. Answered events stay."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cosmic_tta.sessions.session import Session
from tests.support.small_session import (
    FaultyOs,
    faulty_disk,
    in_memory,
    script,
    small_session,
    undisturbed,
    write_files,
)

pytestmark = pytest.mark.pathless


class ForgetfulOs(FaultyOs):
    """A disk that knows what it would still hold after a power cut."""

    def __init__(self) -> None:
        super().__init__(at=0)
        self.bytes: dict[int, bytes] = {}  # of a file, by its inode, when it was last synced
        self.names: dict[str, dict[str, int]] = {}  # of a folder, when it was last synced

    def __getattr__(self, name: str) -> Any:
        real = super().__getattr__(name)
        seen: dict[str, Callable[..., Any]] = {"open": self._open, "fsync": self._fsync, "replace": self._replace}
        return seen.get(name, real)

    def _open(self, path: Any, flags: int, mode: int = 0o600) -> int:
        handle = os.open(path, flags, mode)
        if flags & os.O_EXCL:
            self.bytes[os.fstat(handle).st_ino] = b""  # not that of a removed one
        return handle

    def _fsync(self, handle: int) -> None:
        path, status = Path(f"/proc/self/fd/{handle}").readlink(), os.fstat(handle)
        if stat.S_ISDIR(status.st_mode):
            self.names[str(path)] = {one.name: one.stat().st_ino for one in path.iterdir() if one.is_file()}
        else:
            self.bytes[status.st_ino] = path.read_bytes()

    def _replace(self, old: Any, new: Any) -> None:
        Path(old).replace(new)
        if str(old) in self.names:
            self.names[str(new)] = self.names.pop(str(old))

    def after_a_cut(self, folder: Path) -> dict[str, bytes]:
        return {name: self.bytes.get(inode, b"") for name, inode in self.names[str(folder)].items() if name != "lock"}


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs /proc")
@pytest.mark.parametrize("policy", ["always", "everysec"])
def test_a_power_cut_after_any_answer(policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "cosmic_tta.sessions.journal.writer.SYNC_INTERVAL", 1e9
    )  # `everysec` syncs only when something asks for it
    with in_memory("cut-") as name:
        root = Path(name).resolve()
        with faulty_disk(FaultyOs(at=0)):
            digests = undisturbed(root / "whole", script())
        late = 0
        with faulty_disk(ForgetfulOs()) as disk:
            assert isinstance(disk, ForgetfulOs)
            session = small_session(root / "s", policy=policy, every=5, keep=2)
            for action in script():
                action(session)
                write_files(root / "cut", disk.after_a_cut(root / "s"))
                with Session.open(root / "cut") as again:
                    assert again.digest() == digests[again.number]
                    assert again.number == session.number or policy == "everysec"
                    late += again.number < session.number
            session.close()
            write_files(root / "cut", disk.after_a_cut(root / "s"))
            with Session.open(root / "cut") as again:
                assert again.digest() == digests[max(digests)]
        assert (late > 0) == (policy == "everysec")
