"""Creates the folder of a session in one step, and recovers a session from its snapshots and its journal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from uuid import uuid4

from cosmic_tta.core import files
from cosmic_tta.core.errors import SessionDamagedError, SessionError, SnapshotError
from cosmic_tta.core.method import Method
from cosmic_tta.core.parameters import values
from cosmic_tta.core.types import Task
from cosmic_tta.sessions.journal.reader import JournalDamage, JournalReader, JournalTail, cut_at_damage, damage_error
from cosmic_tta.sessions.journal.writer import JournalWriter
from cosmic_tta.sessions.monitor import MAX_NAME_LENGTH, Monitor
from cosmic_tta.sessions.replay import EventReplayer, History
from cosmic_tta.sessions.session_file import (
    AdaptationState,
    SessionSnapshot,
    TowerLoader,
    build,
    read,
    snapshot_numbers,
    snapshot_path,
    write,
)
from cosmic_tta.sessions.session_settings import SessionSettings
from cosmic_tta.sessions.state_file import describe, refuse_differences


@dataclass
class RecoveredSession:
    """A session after its last event, the end of its journal, and what went wrong without harm."""

    current: SessionSnapshot  # its number and chain are those of the newest valid snapshot
    tail: JournalTail
    warnings: list[str]
    corrupt_snapshots: list[Path]
    needs_snapshot: bool  # the journal goes back to an older snapshot


@dataclass
class OpenedFolder:
    """The folder of a session, locked and open for writing."""

    folder: Path
    recovered: RecoveredSession
    journal: JournalWriter
    lock: files.Lock


def fixed_properties(adaptation: AdaptationState) -> dict[str, Any]:
    """Return the properties that never change in a stream; the journal repeats them in every segment."""
    task, method = adaptation.state.task, adaptation.method
    return {
        "method": method.name,
        "params": values(method),
        "logit_scale": task.logit_scale,
        "encoder": task.encoder,
        "aux_encoder": task.aux_encoder,
    }


def create_folder(
    folder: Path,
    name: str,
    number: int,
    adaptation: AdaptationState,
    monitor: Monitor,
    paused: bool,
    settings: SessionSettings,
) -> None:
    """Create the folder of a session, complete or not at all."""
    if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME_LENGTH:
        raise SessionError(f"a session's name has 1 to {MAX_NAME_LENGTH} characters; given {name!r:.80}.")
    if folder.exists():
        raise SessionError(f"{str(folder)!r} exists already; give a new folder, or open the session that is there.")
    stream_id = uuid4().hex
    unfinished = folder.with_name(f".{folder.name}.{uuid4().hex}{files.UNFINISHED}")
    try:
        files.make_folder(unfinished)
        journal = JournalWriter.create(unfinished, stream_id, fixed_properties(adaptation), number)
        journal.close()
        write(
            snapshot_path(unfinished, number),
            SessionSnapshot(stream_id, name, number, journal.chain, adaptation, monitor, paused, settings.plain()),
        )
        files.move(unfinished, folder)
    except BaseException:
        files.remove_folder(unfinished)
        raise


def open_folder(
    folder: Path,
    *,
    method: Method[Any] | None = None,
    task: Task | None = None,
    metadata: Mapping[str, Any] | None = None,
    tower: TowerLoader | None = None,
    recover: bool = False,
) -> OpenedFolder:
    """Lock the folder of a session, recover the session, and open its journal; see `Session.open`."""
    if not folder.is_dir():
        raise SessionError(f"no session at {str(folder)!r}.")
    lock = files.Lock(folder, "the session")
    try:
        files.clear_unfinished(folder)
        recovered = recover_session(folder, tower=tower, recover=recover)
        current = recovered.current
        _check_expected(current, method, task, metadata)
        policy = SessionSettings.parse(current.settings).policy
        properties = fixed_properties(current.adaptation)
        journal = JournalWriter(folder, current.stream_id, properties, recovered.tail, policy)
    except BaseException:
        lock.release()
        raise
    return OpenedFolder(folder, recovered, journal, lock)


def recover_session(folder: Path, *, tower: TowerLoader | None = None, recover: bool = False) -> RecoveredSession:
    """Read the newest valid snapshot and replay the journal behind it.

    A torn tail of the journal is reported here. The `JournalWriter` that `open_folder` makes then cuts it off.

    Args:
        folder: of the session.
        tower: loads the text tower of a task, for methods that learn through it.
        recover: of a damaged journal, keep everything before the damage; the rest is renamed to `.damaged`.

    Raises:
        SessionDamagedError: acknowledged events are damaged, and `recover` is off or cannot help.
        SessionFormatError: another version wrote the files, in another format.
    """
    snapshot, corrupt = newest_snapshot(folder, tower)
    warnings = [str(error) for error in corrupt.values()]
    history = History(folder, snapshot.stream_id, tower)
    replayer = EventReplayer(history, snapshot.number, snapshot.adaptation, snapshot.paused, snapshot.monitor)
    reader = JournalReader(folder, snapshot.stream_id, snapshot.number, snapshot.chain)
    damage = _replay(reader, replayer)
    if reader.metadata is not None:
        _check_journal(folder, reader.metadata, snapshot.adaptation)
    if damage is not None:
        if not recover or damage.recoverable is None:
            raise damage
        _cut_after(folder, snapshot, reader, damage.recoverable, fixed_properties(replayer.adaptation))
        for path in corrupt:
            files.quarantine(path)
        recovered = recover_session(folder, tower=tower)
        result = f"recovered up to event {recovered.tail.number}."
        recovered.warnings = [*warnings, str(damage), *recovered.warnings, result]
        return recovered
    tail = reader.tail
    assert tail is not None  # a reader ends with a tail or with damage
    if tail.torn_bytes:  # not yet: the writer does it, after all checks have passed
        warnings.append(f"{tail.torn_bytes} bytes at the end of {tail.path.name} were never answered and were cut off.")
    if snapshot.build != build():
        warnings.append(f"snapshots were made by {snapshot.build}, this is {build()}: last bits may differ.")
    current = replace(
        snapshot, adaptation=replayer.adaptation, monitor=replayer.monitor or Monitor(), paused=replayer.paused
    )
    return RecoveredSession(current, tail, warnings, list(corrupt), replayer.needs_snapshot)


def _replay(reader: JournalReader, replayer: EventReplayer) -> SessionDamagedError | None:
    """Apply the journal; return the damage that ended it, None if it is valid."""
    try:
        for entry in reader:
            replayer.apply(entry.number, entry.record)
        replayer.flush()
    except SessionDamagedError as error:
        return error
    return None if reader.damage is None else damage_error(reader.damage)


def newest_snapshot(
    folder: Path, tower: TowerLoader | None = None
) -> tuple[SessionSnapshot, dict[Path, SnapshotError]]:
    """Return the newest valid snapshot, and the errors of the corrupt ones after it."""
    corrupt: dict[Path, SnapshotError] = {}
    for number in snapshot_numbers(folder):
        path = snapshot_path(folder, number)
        try:
            return read(path, tower=tower), corrupt
        except SnapshotError as error:
            corrupt[path] = error
    errors = " ".join(str(error) for error in list(corrupt.values())[:3])
    raise SessionDamagedError(f"{str(folder)!r} has no snapshot that can be read. {errors}".rstrip())


def _cut_after(
    folder: Path, snapshot: SessionSnapshot, reader: JournalReader, number: int, metadata: Mapping[str, Any]
) -> None:
    """End the journal after an event."""
    damage = reader.damage
    if damage is None or number < damage.last_valid:
        damage = _position_after(folder, snapshot, number)
    cut_at_damage(folder, snapshot.stream_id, metadata, damage)


def _position_after(folder: Path, snapshot: SessionSnapshot, number: int) -> JournalDamage:
    """Return where to cut the journal so that an event is its last."""
    chain = snapshot.chain
    for entry in JournalReader(folder, snapshot.stream_id, snapshot.number, snapshot.chain):
        if entry.number > number:
            return JournalDamage(entry.path, entry.start, number, chain, "")
        chain = entry.chain
    raise SessionDamagedError(f"the journal ends before event {number}.")


def _check_journal(folder: Path, stored: Mapping[str, Any], adaptation: AdaptationState) -> None:
    """Refuse a journal that was written for another method, other parameters or other encoders."""
    try:
        refuse_differences(f"the journal in {str(folder)!r}", stored, fixed_properties(adaptation))
    except SnapshotError as error:
        raise SessionError(f"{error} A changed parameter or encoder is a new stream: create one.") from error


def _check_expected(
    current: SessionSnapshot, method: Method[Any] | None, task: Task | None, metadata: Mapping[str, Any] | None
) -> None:
    """Refuse a session of another method, parameter, prompt or encoder than expected; say what differs."""
    adaptation = current.adaptation
    stored = describe(adaptation.method, adaptation.state)
    expected = describe(method or adaptation.method, adaptation.state)
    if task is not None:
        expected |= {
            "class_names": list(task.class_names),
            "text": task.text_digest,
            "logit_scale": task.logit_scale,
            "encoder": task.encoder,
            "aux_encoder": task.aux_encoder,
        }
        if task.aux_dim is not None and adaptation.state.seen:
            expected["aux_dim"] = task.aux_dim
    stored |= {f"metadata {key}": value for key, value in adaptation.metadata.items()}
    expected |= {f"metadata {key}": value for key, value in (metadata or {}).items()}
    try:
        refuse_differences(f"the session {current.name!r}", stored, expected)
    except SnapshotError as error:
        raise SessionError(f"{error} A changed parameter, prompt or encoder is a new stream: create one.") from error
