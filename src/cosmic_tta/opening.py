"""A session's folder: made in one go, and brought back from its last good snapshot and its journal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from uuid import uuid4

from cosmic_tta import disk
from cosmic_tta.core import Method, Task
from cosmic_tta.errors import SessionDamaged, SessionError, SnapshotError
from cosmic_tta.history import Fold, History, binding
from cosmic_tta.journal import POLICIES, Journal, Policy
from cosmic_tta.moments import Moment, Standing, Towering, build, read, snapshot_numbers, snapshot_path, write
from cosmic_tta.monitor import NAME_LENGTH, Monitor
from cosmic_tta.replay import Damage, Reader, Tail, cut_off, damaged
from cosmic_tta.snapshot import describe, refuse_differences


@dataclass(frozen=True)
class Settings:
    """How a session is kept: sync policy, snapshots kept, events between snapshots."""

    policy: Policy = "always"
    keep: int = 8
    every: int = 500

    def __post_init__(self) -> None:
        for name in ("keep", "every"):
            value = getattr(self, name)
            if type(value) is not int or value < 1:
                raise SessionError(f"{name} must be a whole number, at least 1; given {value!r}.")
        if self.policy not in POLICIES:
            raise SessionError(f"the sync policy must be 'always' or 'everysec'; given {self.policy!r}.")

    def plain(self) -> dict[str, Any]:
        """Return them ready for JSON."""
        return {"policy": self.policy, "keep": self.keep, "every": self.every}

    @classmethod
    def of(cls, moment: Moment) -> Settings:
        """Return those of a moment."""
        try:
            return cls(**moment.settings)
        except TypeError as error:
            raise SessionError(f"the settings {sorted(moment.settings)} are none of a session.") from error


@dataclass
class Found:
    """What a folder holds: the session as it stands, where its journal ends, and what was wrong without harm."""

    now: Moment  # its number and chain are those of the newest sound snapshot
    tail: Tail
    warnings: list[str]
    spoiled: list[Path]  # snapshots that are damaged
    turned: bool  # whether the journal goes back to an older snapshot: a new one is owed


def begin(
    folder: Path, name: str, number: int, standing: Standing, monitor: Monitor, paused: bool, settings: Settings
) -> None:
    """Make the folder of a session; it is there whole, or not at all."""
    if not isinstance(name, str) or not 0 < len(name) <= NAME_LENGTH:
        raise SessionError(f"a session's name has 1 to {NAME_LENGTH} characters; given {name!r:.80}.")
    if folder.exists():
        raise SessionError(f"{str(folder)!r} exists already; give a new folder, or open the session that is there.")
    stream = uuid4().hex
    making = folder.with_name(f".{folder.name}.{uuid4().hex}{disk.UNFINISHED}")
    try:
        disk.make_folder(making)
        journal = Journal.create(making, stream, binding(standing), number)
        journal.close()
        told = settings.plain()
        write(
            snapshot_path(making, number),
            Moment(stream, name, number, journal.chain, standing, monitor, paused, told),
        )
        disk.move(making, folder)
    except BaseException:
        disk.remove_folder(making)
        raise


def find(folder: Path, *, tower: Towering | None = None, recover: bool = False) -> Found:
    """Bring a session back: the newest sound snapshot, then the journal.

    SessionDamaged if that cannot be; with `recover`, what comes before the damage is kept, the rest laid aside.
    """
    moment, spoiled = newest(folder, tower)
    stream, warnings = moment.stream, [str(error) for error in spoiled.values()]
    history = History(folder, stream, tower)
    fold = Fold(history, moment.number, moment.standing, moment.paused, moment.monitor)
    reader = Reader(folder, stream, moment.number, moment.chain)
    broken: SessionDamaged | None = None
    try:
        for numbered in reader:
            fold.take(numbered.number, numbered.record)
        fold.finish()
    except SessionDamaged as error:
        broken = error
    if reader.about is not None:
        _same_binding(folder, reader.about, moment.standing)
    if broken is None and reader.damage is not None:
        broken = damaged(reader.damage)
    if broken is not None:
        if not recover or broken.recoverable is None:
            raise broken
        damage = reader.damage
        if damage is None or broken.recoverable < damage.after:
            damage = _earlier(folder, moment, broken.recoverable)
        cut_off(folder, stream, binding(fold.standing), damage)
        for path in spoiled:
            disk.lay_aside(path)
        found = find(folder, tower=tower)
        found.warnings = [*warnings, str(broken), *found.warnings, f"recovered up to event {found.tail.number}."]
        return found
    tail = reader.tail
    assert tail is not None  # a reader ends with a tail or with damage
    if tail.torn:
        warnings.append(f"{tail.torn} bytes at the end of {tail.path.name} were never answered and were cut off.")
    if moment.build != build():
        warnings.append(f"snapshots were made by {moment.build}, this is {build()}: last bits may differ.")
    now = replace(moment, standing=fold.standing, monitor=fold.monitor or Monitor(), paused=fold.paused)
    return Found(now, tail, warnings, list(spoiled), fold.turned)


def newest(folder: Path, tower: Towering | None = None) -> tuple[Moment, dict[Path, SnapshotError]]:
    """Return the newest sound snapshot, and what is wrong with those after it."""
    spoiled: dict[Path, SnapshotError] = {}
    for number in snapshot_numbers(folder):
        path = snapshot_path(folder, number)
        try:
            return read(path, tower=tower), spoiled
        except SnapshotError as error:
            spoiled[path] = error
    told = " ".join(str(error) for error in list(spoiled.values())[:3])
    raise SessionDamaged(f"{str(folder)!r} has no snapshot that can be read. {told}".rstrip())


def _earlier(folder: Path, moment: Moment, number: int) -> Damage:
    """Return where to cut so that an event is the last."""
    chain = moment.chain
    for numbered in Reader(folder, moment.stream, moment.number, moment.chain):
        if numbered.number > number:
            return Damage(numbered.path, numbered.start, number, chain, "")
        chain = numbered.chain
    raise SessionDamaged(f"the journal ends before event {number}.")


def _same_binding(folder: Path, stored: Mapping[str, Any], standing: Standing) -> None:
    try:
        refuse_differences(f"the journal in {str(folder)!r}", stored, binding(standing))
    except SnapshotError as error:
        raise SessionError(f"{error} A changed parameter or encoder is a new stream: create one.") from error


def refuse_others(now: Moment, method: Method[Any] | None, task: Task | None, about: Mapping[str, Any] | None) -> None:
    """Refuse to take a session for one of another method, parameter, prompt or encoder; say what differs."""
    standing = now.standing
    mine, wanted = describe(standing.method, standing.state), describe(method or standing.method, standing.state)
    if task is not None:
        wanted |= {
            "class_names": list(task.class_names),
            "text": task.text_digest,
            "logit_scale": task.logit_scale,
            "encoder": task.encoder,
            "aux_encoder": task.aux_encoder,
        }
        if task.aux_dim is not None and standing.state.seen:
            wanted["aux_dim"] = task.aux_dim
    mine |= {f"about {key}": value for key, value in standing.about.items()}
    wanted |= {f"about {key}": value for key, value in (about or {}).items()}
    try:
        refuse_differences(f"the session {now.name!r}", mine, wanted)
    except SnapshotError as error:
        raise SessionError(f"{error} A changed parameter, prompt or encoder is a new stream: create one.") from error
