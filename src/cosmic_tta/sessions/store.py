"""Store: the sessions of one data folder. One process at a time may write to it."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, Self
from uuid import uuid4

from cosmic_tta.core import files
from cosmic_tta.core.errors import CosmicError, SessionError, StorageError
from cosmic_tta.core.method import Method
from cosmic_tta.core.types import Task
from cosmic_tta.sessions.admission import AdmissionPolicy
from cosmic_tta.sessions.backend import SessionBackend
from cosmic_tta.sessions.journal.writer import SYNC_INTERVAL, SyncPolicy
from cosmic_tta.sessions.session import Session
from cosmic_tta.sessions.session_file import TowerLoader, read_name_and_metadata

REMOVED = ".removed"  # ends the name of a folder that is being deleted


class ClosedSession(NamedTuple):
    """A session that could not be opened."""

    error: CosmicError
    name: str  # empty if it cannot be read
    metadata: dict[str, Any] | None  # None if it cannot be read


class Store:
    """The sessions of one data folder, by id.

    An id is a random word, and also the name of the session's folder; names that clients give never become paths. A
    session whose files are damaged is listed by `damaged()`; the others work on.

    Args:
        folder: holds the sessions; it is made if it does not exist.
        tower: loads the text tower of a task, for methods that learn through it.
        backend: the class that creates and opens sessions, in this process or in others.

    Raises:
        LockedError: another process has the folder open.
        StorageError: the folder cannot be made.

    Examples:
        >>> import tempfile
        >>> from cosmic_tta import make_method
        >>> from cosmic_tta.features.synthetic import superclass_pack
        >>> from cosmic_tta.sessions import Store
        >>> pack, folder = superclass_pack(0, images=20, views=1, dim=8), tempfile.mkdtemp()
        >>> with Store(folder) as store:
        ...     key = store.create("camera", pack.task(), make_method("tda"))
        ...     results = store.get(key).step([pack.sample(0)])
        >>> with Store(folder) as store:  # after a restart
        ...     store.open_all()
        ...     print({session.name: session.seen for session in store.sessions().values()})
        {'camera': 1}
    """

    def __init__(
        self, folder: Path | str, tower: TowerLoader | None = None, backend: type[SessionBackend] = Session
    ) -> None:
        self.folder, self._tower, self._backend = Path(folder), tower, backend
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise files.storage_error("make", self.folder, error) from error
        self._lock = files.Lock(self.folder, "the data folder")
        self._sessions: dict[str, SessionBackend] = {}
        self._damaged: dict[str, ClosedSession] = {}
        self._change_lock = threading.RLock()
        self._closed = threading.Event()
        self._clear()
        self._timer = threading.Thread(target=self._tick, name="journal-sync", daemon=True)
        self._timer.start()

    def open_all(self) -> None:
        """Open every session of the folder; those that cannot be opened are listed by `damaged()`."""
        with self._change_lock:
            keys = sorted(path.name for path in self.folder.iterdir() if path.is_dir() and _is_id(path.name))
            missing = [key for key in keys if key not in self._sessions]
            with ThreadPoolExecutor(self._backend.parallel_opens) as pool:
                list(pool.map(self._open, missing))

    def _open(self, key: str, **how: Any) -> None:
        try:
            session = self._backend.open(self.folder / key, tower=self._tower, **how)
        except CosmicError as error:
            self._add_damaged(key, error)
        except Exception as error:  # a defect of the program: only this session stays closed
            self._add_damaged(key, SessionError(f"the stream cannot be opened: {type(error).__name__}: {error}"))
        else:
            self._sessions[key] = session
            self._damaged.pop(key, None)

    def _add_damaged(self, key: str, error: CosmicError) -> None:
        self._damaged[key] = ClosedSession(error, *read_name_and_metadata(self.folder / key))

    def sessions(self) -> Mapping[str, SessionBackend]:
        """Return the open sessions by id."""
        return dict(self._sessions)

    def damaged(self) -> Mapping[str, CosmicError]:
        """Return the errors of the sessions that could not be opened, by id."""
        return {key: closed.error for key, closed in self._damaged.items()}

    def get(self, key: str) -> SessionBackend:
        """Return an open session by id; raise the error of a damaged one."""
        if key in self._damaged:
            raise self._damaged[key].error
        if key not in self._sessions:
            raise SessionError(f"no stream {key!r:.80}; see the list of streams.")
        return self._sessions[key]

    def name_of(self, key: str) -> str:
        """Return a session's name; of a damaged one, from a readable snapshot, or empty."""
        if key in self._sessions:
            return self._sessions[key].name
        return self._damaged[key].name if key in self._damaged else ""

    def metadata_of(self, key: str) -> dict[str, Any] | None:
        """Return a session's metadata; of a damaged one, from a valid snapshot. None if there is no such snapshot."""
        if key in self._sessions:
            return self._sessions[key].metadata
        return self._damaged[key].metadata if key in self._damaged else None

    def id_of(self, name: str) -> str | None:
        """Return the id of the session with a name, None if no session has it."""
        return next((key for key in (*self._sessions, *self._damaged) if self.name_of(key) == name), None)

    def create(
        self,
        name: str,
        task: Task,
        method: Method[Any],
        *,
        metadata: Mapping[str, Any] | None = None,
        guard: AdmissionPolicy | None = None,
        policy: SyncPolicy = "always",
        keep: int = 8,
        every: int = 500,
    ) -> str:
        """Create a session and return its id; see `Session.create`. Names are unique."""
        with self._change_lock:
            self._check_name(name)
            key = uuid4().hex
            session = self._backend.create(
                self.folder / key, name, task, method, metadata=metadata, guard=guard, policy=policy, keep=keep,
                every=every, tower=self._tower,
            )  # fmt: skip
            self._sessions[key] = session
            return key

    def import_(self, file: Path | str, name: str) -> str:
        """Create a session from an exported file and return its id."""
        with self._change_lock:
            self._check_name(name)
            key = uuid4().hex
            self._sessions[key] = self._backend.import_(file, self.folder / key, name, tower=self._tower)
            return key

    def recover(self, key: str) -> SessionBackend:
        """Open a damaged session with everything before the damage; the rest is renamed to `.damaged`."""
        with self._change_lock:
            if key not in self._damaged:
                raise SessionError(f"stream {key!r:.80} is not damaged.")
            self._open(key, recover=True)
            return self.get(key)

    def reopen(self, key: str) -> SessionBackend:
        """Open a session again that could not be opened, or that an error closed."""
        with self._change_lock:
            session = self._sessions.pop(key, None)
            if session is not None:
                session.abandon()
            elif key not in self._damaged:
                raise SessionError(f"no stream {key!r:.80}; see the list of streams.")
            self._open(key)
            return self.get(key)

    def delete(self, key: str) -> None:
        """Remove a session: its folder is renamed first, then deleted."""
        with self._change_lock:
            if key not in self._sessions and key not in self._damaged:
                raise SessionError(f"no stream {key!r:.80}; see the list of streams.")
            removed = self.folder / f".{key}{REMOVED}"
            files.move(self.folder / key, removed)
            session = self._sessions.pop(key, None)
            self._damaged.pop(key, None)
            if session is not None:
                session.abandon()
            files.remove_folder(removed)

    def close(self) -> None:
        """Close every session and unlock the folder."""
        self._closed.set()
        problems = []
        with self._change_lock:
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
        if self.id_of(name) is not None:
            raise SessionError(
                f"there is a stream named {name!r:.80} already; choose another name, or delete that one."
            )

    def _clear(self) -> None:
        """Remove what a killed process left half created or half deleted."""
        files.clear_unfinished(self.folder)
        for path in self.folder.glob(".*"):
            if path.is_dir() and path.name.endswith((REMOVED, files.UNFINISHED)):
                files.remove_folder(path)

    def _tick(self) -> None:
        while not self._closed.wait(SYNC_INTERVAL / 2):
            for session in list(self._sessions.values()):
                with suppress(CosmicError):  # the next write reports it
                    session.tick()


def _is_id(name: str) -> bool:
    return len(name) == 32 and all(letter in "0123456789abcdef" for letter in name)
