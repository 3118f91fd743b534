"""Store: the sessions of one data folder, which one process at a time may write to."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, Self
from uuid import uuid4

from cosmic_tta import disk
from cosmic_tta.core import Method, Task
from cosmic_tta.errors import CosmicError, SessionError, StorageError
from cosmic_tta.guards import Guard
from cosmic_tta.journal import SECOND, Policy
from cosmic_tta.moments import Towering, told
from cosmic_tta.session import Session

GRAVE = ".removed"


class Store:
    """Sessions by id: a random word, which is also the name of the session's folder. No name of a client is a path.

    A session whose files are damaged is listed by `damaged()` with what can be recovered; the others go on.
    """

    def __init__(self, folder: Path | str, tower: Towering | None = None, kind: Any = Session) -> None:
        """Take a data folder.

        Args:
            folder: where the sessions lie.
            tower: gives a task its text tower, for methods that learn through it.
            kind: opens and makes sessions, and may keep them in other processes.
        """
        self.folder, self._tower, self._kind = Path(folder), tower, kind
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise disk.refusal("make", self.folder, error) from error
        self._lock = disk.Lock(self.folder, "the data folder")
        self._sessions: dict[str, Session] = {}
        self._damaged: dict[str, CosmicError] = {}
        self._changing = threading.RLock()
        self._ended = threading.Event()
        self._clear()
        self._timer = threading.Thread(target=self._tick, name="journal-sync", daemon=True)
        self._timer.start()

    def open_all(self) -> None:
        """Open every session that is there."""
        with self._changing:
            found = sorted(path.name for path in self.folder.iterdir() if path.is_dir() and _is_id(path.name))
            todo = [key for key in found if key not in self._sessions]
            at_once = getattr(self._kind, "at_once", 1)  # of sessions that are opened in other processes, several
            with ThreadPoolExecutor(at_once) as pool:
                list(pool.map(self._open, todo))

    def _open(self, key: str, **how: Any) -> None:
        try:
            session = self._kind.open(self.folder / key, tower=self._tower, **how)
        except CosmicError as error:
            self._damaged[key] = error
        except Exception as error:  # a defect of ours: this stream is left aside, the others go on
            self._damaged[key] = SessionError(f"the stream cannot be opened: {type(error).__name__}: {error}")
        else:
            self._sessions[key] = session
            self._damaged.pop(key, None)

    def sessions(self) -> Mapping[str, Session]:
        """Return the sessions that are open, by id."""
        return dict(self._sessions)

    def damaged(self) -> Mapping[str, CosmicError]:
        """Return what is wrong with those that could not be opened, by id."""
        return dict(self._damaged)

    def get(self, key: str) -> Session:
        """Return a session by id."""
        if key in self._damaged:
            raise self._damaged[key]
        if key not in self._sessions:
            raise SessionError(f"no stream {key!r:.80}; see the list of streams.")
        return self._sessions[key]

    def name_of(self, key: str) -> str:
        """Return a session's name; of a damaged one, what a snapshot says that can still be read, or nothing."""
        if key in self._sessions:
            return self._sessions[key].name
        return told(self.folder / key)[0] if key in self._damaged else ""

    def about_of(self, key: str) -> dict[str, Any]:
        """Return what its owner wrote about a session; of a damaged one, what can still be read."""
        if key in self._sessions:
            return self._sessions[key].about
        return told(self.folder / key)[1] if key in self._damaged else {}

    def named(self, name: str) -> str | None:
        """Return the id of the session with a name, None if there is none."""
        return next((key for key in (*self._sessions, *self._damaged) if self.name_of(key) == name), None)

    def create(
        self,
        name: str,
        task: Task,
        method: Method[Any],
        *,
        about: Mapping[str, Any] | None = None,
        guard: Guard | None = None,
        policy: Policy = "always",
        keep: int = 8,
        every: int = 500,
    ) -> str:
        """Make a session and return its id; names are unique."""
        with self._changing:
            self._check_name(name)
            key = uuid4().hex
            session = self._kind.create(
                self.folder / key, name, task, method, about=about, guard=guard, policy=policy, keep=keep, every=every,
                tower=self._tower,
            )  # fmt: skip
            self._sessions[key] = session
            return key

    def import_(self, file: Path | str, name: str) -> str:
        """Make a session from an exported file and return its id."""
        with self._changing:
            self._check_name(name)
            key = uuid4().hex
            self._sessions[key] = self._kind.import_(file, self.folder / key, name, tower=self._tower)
            return key

    def recover(self, key: str) -> Session:
        """Open a damaged session with what comes before the damage; the rest is laid aside."""
        with self._changing:
            if key not in self._damaged:
                raise SessionError(f"stream {key!r:.80} is not damaged.")
            self._open(key, recover=True)
            return self.get(key)

    def reopen(self, key: str) -> Session:
        """Try again to open a session that could not be opened, or that was closed by an error."""
        with self._changing:
            session = self._sessions.pop(key, None)
            if session is not None:
                session.abandon()
            elif key not in self._damaged:
                raise SessionError(f"no stream {key!r:.80}; see the list of streams.")
            self._open(key)
            return self.get(key)

    def delete(self, key: str) -> None:
        """Remove a session: its folder is renamed at once, then emptied."""
        with self._changing:
            if key not in self._sessions and key not in self._damaged:
                raise SessionError(f"no stream {key!r:.80}; see the list of streams.")
            grave = self.folder / f".{key}{GRAVE}"
            disk.move(self.folder / key, grave)
            session = self._sessions.pop(key, None)
            self._damaged.pop(key, None)
            if session is not None:
                session.abandon()
            disk.remove_folder(grave)

    def close(self) -> None:
        """Close every session and let another process in."""
        self._ended.set()
        problems = []
        with self._changing:
            for session in self._sessions.values():
                try:
                    session.close()
                except StorageError as error:
                    problems.append(error)
            self._sessions.clear()
            self._lock.release()
        self._timer.join(timeout=5)
        if problems:
            raise problems[0]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check_name(self, name: str) -> None:
        if self.named(name) is not None:
            raise SessionError(
                f"there is a stream named {name!r:.80} already; choose another name, or delete that one."
            )

    def _clear(self) -> None:
        """Remove what a killed process left half made or half removed."""
        disk.clear_unfinished(self.folder)
        for path in self.folder.glob(".*"):
            if path.is_dir() and path.name.endswith((GRAVE, disk.UNFINISHED)):
                disk.remove_folder(path)

    def _tick(self) -> None:
        while not self._ended.wait(SECOND / 2):
            for session in list(self._sessions.values()):
                with suppress(CosmicError):  # whoever writes next is told
                    session.tick()


def _is_id(name: str) -> bool:
    return len(name) == 32 and all(letter in "0123456789abcdef" for letter in name)
