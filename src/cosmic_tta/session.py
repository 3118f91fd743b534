"""Session: a stream that lasts. Every event is in the journal before it is answered; a restart replays them.

A session is a fold over events: step, look (a step while paused), pause, resume, label, classes, reset, rolled_back,
without. What a replay gives is bit by bit what was there before (same build, same kind of CPU).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

from cosmic_tta import disk, shelf
from cosmic_tta.alarms import Alarm, Signals
from cosmic_tta.carried import kept_names
from cosmic_tta.core import Method, Prediction, Sample, State, Task
from cosmic_tta.errors import CosmicError, InputError, SessionError, SnapshotError, StorageError
from cosmic_tta.guards import Guard, Reason
from cosmic_tta.history import ANEW, History, apply, as_record, binding, changed, fresh
from cosmic_tta.journal import Journal, Policy
from cosmic_tta.moments import (
    Moment,
    SnapshotInfo,
    Standing,
    Towering,
    read,
    read_info,
    snapshot_path,
    write,
)
from cosmic_tta.monitor import NAME_LENGTH, Monitor
from cosmic_tta.opening import Settings, begin, find, refuse_others
from cosmic_tta.records import Record
from cosmic_tta.snapshot import describe
from cosmic_tta.state import state_digest

LARGEST_ABOUT = 4 << 20  # bytes of JSON
MOST_SOURCES = 4096  # that are known by name
TEXT_TOLERANCE = 1e-3  # between the text of a class that stays and the one it had: encoders round


class Glance(NamedTuple):
    """How a session does, for those who look at many."""

    fallen_back: bool  # late labels showed harm: zero-shot answers, and nothing is learned until it is resumed
    accuracy: float | None  # of the labelled answers
    zero_shot_accuracy: float | None
    alarms: tuple[str, ...]  # the kinds that are on


class Answered(NamedTuple):
    """An answer, its number in the session, and whether the session learned from the sample."""

    number: int
    prediction: Prediction
    learned: bool
    reason: Reason = ""  # why not


class Session:
    """One stream with its journal. It has one owner: calls come one after the other."""

    def __init__(
        self, folder: Path, moment: Moment, journal: Journal, lock: disk.Lock, tower: Towering | None = None
    ) -> None:
        self.folder, self.stream, self.name = folder, moment.stream, moment.name
        self.settings = Settings.of(moment)
        self.paused, self.monitor = moment.paused, moment.monitor
        self.warnings: list[str] = []  # what went wrong without harm
        self._standing, self._journal, self._lock = moment.standing, journal, lock
        self._last = moment.number  # event of the newest snapshot
        self._next = 0  # event at which the next one is tried
        self._owed = False  # whether the journal since then goes back to an older one
        self._tower, self._history = tower, History(folder, self.stream, tower)
        self._schedule()

    # What a session is made of.

    @classmethod
    def create(
        cls,
        folder: Path | str,
        name: str,
        task: Task,
        method: Method[Any],
        *,
        about: Mapping[str, Any] | None = None,
        guard: Guard | None = None,
        policy: Policy = "always",
        keep: int = 8,
        every: int = 500,
        tower: Towering | None = None,
    ) -> Self:
        """Make a session in a folder that does not exist yet; a guard decides which samples may teach."""
        if "checkpoint" in method.needs:
            raise InputError(f"{method.name} has a trained checkpoint, which a session does not keep: use cosmic eval.")
        remembered = None if guard is None else guard.init(task)
        standing = Standing(method, method.init(task), checked_about(about or {}), guard, remembered)
        begin(Path(folder), name, 0, standing, Monitor(), False, Settings(policy, keep, every))
        return cls.open(folder, tower=tower)

    @classmethod
    def open(
        cls,
        folder: Path | str,
        *,
        method: Method[Any] | None = None,
        task: Task | None = None,
        about: Mapping[str, Any] | None = None,
        tower: Towering | None = None,
        recover: bool = False,
    ) -> Self:
        """Open a session: the last good snapshot, then the journal.

        Args:
            folder: where it lies.
            method: if told, the session must be of this method and these parameters; else it is refused.
            task: if told, it must have these classes, texts and encoders.
            about: if told, it must have been made with these.
            tower: gives a task its text tower, for a method that learns through it: `towers.task_with_tower`.
            recover: of a damaged journal, keep what comes before the damage; the rest is laid aside.
        """
        folder = Path(folder)
        if not folder.is_dir():
            raise SessionError(f"no session at {str(folder)!r}.")
        lock = disk.Lock(folder, "the session")
        try:
            disk.clear_unfinished(folder)
            found = find(folder, tower=tower, recover=recover)
            refuse_others(found.now, method, task, about)
            now, settings = found.now, Settings.of(found.now)
            journal = Journal(folder, now.stream, binding(now.standing), found.tail, settings.policy)
        except BaseException:
            lock.release()
            raise
        session = cls(folder, now, journal, lock, tower)
        session.warnings = found.warnings
        if found.spoiled:
            session._replace(found.spoiled)
        if found.turned and not found.spoiled:
            session._owe()
            session._after()
        return session

    def _replace(self, spoiled: Iterable[Path]) -> None:
        """Lay damaged snapshots aside, and write a sound one."""
        try:
            for path in spoiled:
                disk.lay_aside(path)
            self.snapshot()
        except StorageError as error:
            self._warn(str(error))

    @classmethod
    def import_(
        cls, file: Path | str, folder: Path | str, name: str | None = None, *, tower: Towering | None = None
    ) -> Self:
        """Make a new session from an exported file; numbers go on where that one was."""
        given = read(Path(file), tower=tower)
        begin(
            Path(folder), name or given.name, given.number, given.standing, given.monitor, given.paused,
            Settings.of(given),
        )  # fmt: skip
        return cls.open(folder, tower=tower)

    def export(self, file: Path | str) -> None:
        """Write the session as it stands to one file, from which `import_` makes another."""
        write(Path(file), self._moment(""))

    def close(self) -> None:
        """Sync the journal and let others in."""
        try:
            self._journal.close()
        finally:
            self._lock.release()

    def abandon(self) -> None:
        """Let go of the files without another word to the disk, as a process does that is killed."""
        self._journal.abandon()
        self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # What can be asked of it.

    @property
    def method(self) -> Method[Any]:
        """The method and its parameters."""
        return self._standing.method

    @property
    def state(self) -> State:
        """What was learned."""
        return self._standing.state

    @property
    def task(self) -> Task:
        """The classes and their texts."""
        return self._standing.state.task

    @property
    def about(self) -> dict[str, Any]:
        """What else the session was made with: plain values of whoever made it."""
        return self._standing.about

    @property
    def guard(self) -> Guard | None:
        """Which samples may teach."""
        return self._standing.guard

    def alarms(self) -> list[Alarm]:
        """Return the alarms that are on: drift, collapse, harm."""
        return self.monitor.alarms(self.task.class_names)

    @property
    def glance(self) -> Glance:
        """How it does, in brief."""
        monitor = self.monitor
        return Glance(
            bool(monitor.fallen), monitor.accuracy, monitor.zero_shot_accuracy, tuple(one.kind for one in self.alarms())
        )

    def signals(self) -> Signals:
        """Return what the alarms look at, as of now."""
        return self.monitor.signals()

    @property
    def not_learned(self) -> dict[str, int]:
        """How many samples did not teach, by reason."""
        return {reason: self.monitor.counts[reason] for reason in ("paused", "duplicate", "quota")}

    @property
    def sources(self) -> dict[str, list[int]]:
        """Who had a part in what was learned: name → [number of the first step, steps]."""
        return self._standing.sources

    @property
    def number(self) -> int:
        """The number of the last event."""
        return self._journal.number

    @property
    def closed(self) -> bool:
        """Whether it was closed, by its owner or by an error that it could not mend; then it must be opened again."""
        return self._journal.closed

    @property
    def seen(self) -> int:
        """Samples that entered the state."""
        return self.state.seen

    def digest(self) -> str:
        """Return a fingerprint of state, task and monitor."""
        told = describe(self.method, self.state)
        told["digest"] = state_digest(self.state)
        remembered = self._standing.remembered
        guarded = None if remembered is None else state_digest(remembered)
        parts = [told, guarded, self.monitor.digest(), self.paused, self.about, self.sources]
        text = json.dumps(parts, sort_keys=True)
        return blake2b(text.encode(), digest_size=16).hexdigest()

    # Events.

    def standing(self, number: int) -> Standing:
        """Return what was known after an event, if snapshots and journal reach back that far."""
        return self._history.standing(number, frozenset())

    def step(
        self,
        samples: Iterable[Sample],
        *,
        sources: Sequence[str | None] | None = None,
        tags: Sequence[str | None] | None = None,
    ) -> list[Answered]:
        """Let samples enter and answer them; while paused, answer them alone. On disk before it returns."""
        samples = list(samples)
        if not samples:
            return []
        self.method.check_block(self.state, samples)
        sources, tags = _words(sources, len(samples), "sources"), _words(tags, len(samples), "tags")
        if len(self.sources.keys() | {source for source in sources if source}) > MOST_SOURCES:
            raise InputError(f"a session knows at most {MOST_SOURCES:,} sources by name; give fewer names, or none.")
        kind = "look" if self.paused or self.monitor.fallen else "step"
        records = [as_record(kind, *one) for one in zip(samples, sources, tags, strict=True)]
        mark = self._journal.mark
        numbers = self._journal.append(records)
        try:
            judged = apply(self._standing, kind, numbers, samples, sources)
        except BaseException as error:
            self._take_back(mark, error)
            raise
        names = self.task.class_names
        answered = []
        try:
            for number, sample, one, source, tag in zip(numbers, samples, judged, sources, tags, strict=True):
                prediction = self.monitor.answer(number, sample, one, source, tag, names)
                answered.append(Answered(number, prediction, not one.reason, one.reason))
        except BaseException:  # the monitor may know half of it: begin again from what is on disk
            self._journal.retract(*mark)
            self.abandon()
            raise
        self._after()
        return answered

    def peek(self, samples: Iterable[Sample]) -> list[Prediction]:
        """Answer samples and change nothing; nothing is written."""
        samples = list(samples)
        self.method.check_block(self.state, samples)
        return [self.monitor.given(self.method.peek(self.state, sample)) for sample in samples]

    def label(self, number: int, class_name: str) -> None:
        """Say what the picture of an answer really was: for the monitor, no method ever learns of it."""
        self.labels([(number, class_name)])

    def labels(self, told: Iterable[tuple[int, str]]) -> None:
        """Say it of several answers, all or none, with one wait for the disk."""
        pairs = list(told)
        for number, class_name in pairs:
            if type(number) is not int:
                raise InputError(f"a label is for the number of an answer; given {number!r:.80}.")
            self.monitor.check_number(number)
            if class_name not in self.task.class_names:
                raise InputError(f"{class_name!r:.80} is no class of this session; see its list of classes.")
        if pairs:
            self._journal.append([Record("label", {"of": number, "class": name}) for number, name in pairs])
            for number, class_name in pairs:
                self.monitor.label(number, class_name)
            self._after()

    def pause(self) -> None:
        """Stop learning; samples are answered and not learned from."""
        self._switch(True)

    def resume(self) -> None:
        """Go on learning."""
        self._switch(False)

    def _switch(self, paused: bool) -> None:
        if self.paused != paused or (self.monitor.fallen and not paused):
            self._journal.append([Record("pause" if paused else "resume")])
            self.paused = paused
            if not paused:
                self.monitor.forgive(self.number)
            self._after()

    def reset(self) -> None:
        """Forget what was learned. The monitor goes on: what was answered was answered."""
        self._turn(Record("reset"), fresh(self._standing))

    def roll_back(self, snapshot: str) -> None:
        """Go back to what a snapshot knew. The monitor goes on, and so do the numbers."""
        number = shelf.number_of(self.folder, snapshot)
        try:
            then = read(snapshot_path(self.folder, number), self.stream, self._tower)
        except SnapshotError as error:
            raise SessionError(f"cannot roll back: {error}") from error
        self._turn(Record("rolled_back", {"to": number}), then.standing, must_last=True)

    def without(self, source: str) -> None:
        """Undo a source: what was learned becomes what it were had its samples never come."""
        if source not in self.sources:
            raise InputError(f"no source {source!r} has a part in what was learned; see the list of sources.")
        self._journal.flush()
        standing = self._history.standing(self.number, frozenset([source]))
        self._turn(Record("without", {"source": source}), standing, must_last=True)

    def change_classes(
        self, task: Task, renamed: Mapping[str, str] | None = None, *, about: Mapping[str, Any] | None = None
    ) -> None:
        """Go on with other classes; what a class has learned goes with its name, or with its new one."""
        task = self._next_task(task, renamed or {})
        told = {"class_names": list(task.class_names), "renamed": dict(renamed or {})}
        if about is not None:
            told["about"] = checked_about(about)
        record = Record("classes", told, {"text": task.text})
        self._turn(record, changed(self._standing, record), renamed=renamed)

    def _next_task(self, task: Task, renamed: Mapping[str, str]) -> Task:
        """Check a new task; a class that stays keeps its text to the bit, and another text makes another stream."""
        now = self.task
        for part in ("logit_scale", "encoder", "aux_encoder"):
            if getattr(task, part) != getattr(now, part):
                given, expected = getattr(task, part), getattr(now, part)
                raise SessionError(
                    f"{part} is {given!r}, here it is {expected!r}: that would be a new stream, create one."
                )
        if task.dim != now.dim:
            raise SessionError(
                f"the class texts are {task.dim} wide, here they are {now.dim} wide: create a new stream."
            )
        text = task.text.copy()
        for old, new in kept_names(now, task, renamed).items():
            if old == new:
                before, place = now.text[now.class_names.index(old)], task.class_names.index(new)
                if float(np.abs(before - text[place]).max()) > TEXT_TOLERANCE:
                    raise SessionError(
                        f"the text of {old!r} is not the one it has here: other prompts make a new stream, create one."
                    )
                text[place] = before
        return replace(task, text=text, aux_dim=now.aux_dim)

    def _turn(
        self,
        record: Record,
        standing: Standing,
        *,
        must_last: bool = False,
        renamed: Mapping[str, str] | None = None,
    ) -> None:
        """Write an event whose outcome is known, and then make it so."""
        self._journal.append([record])
        self._standing = standing
        if record.kind == "classes":
            self.monitor.rename(renamed or {})
        if record.kind in ANEW:
            self.monitor.turn(self.number)
        if must_last:
            self._owe()
        self._after()

    def _owe(self) -> None:
        """A snapshot is due, so that a restart need not go back again; until then no older one may be removed."""
        self._next, self._owed = 0, True

    # Snapshots.

    def snapshot(self, note: str = "") -> SnapshotInfo:
        """Write a snapshot of now; one with a note is kept until it is removed."""
        if not isinstance(note, str) or len(note) > NAME_LENGTH:
            raise InputError(f"a note has at most {NAME_LENGTH} characters.")
        path = snapshot_path(self.folder, self.number)
        self._journal.rotate()  # before: whoever sees the snapshot must find what follows it
        if note or not path.exists():
            write(path, self._moment(note))
        self._last, self._owed = self.number, False
        self._schedule()
        try:
            shelf.prune(self.folder, self.settings.keep, self.settings.every)
        except StorageError as error:
            self._warn(f"pruning: {error}")
        return read_info(path)

    def snapshots(self) -> list[SnapshotInfo]:
        """List the snapshots, the newest first."""
        return shelf.listed(self.folder)

    def drop_snapshot(self, snapshot: str) -> None:
        """Remove a snapshot; the newest one stays."""
        shelf.number_of(self.folder, snapshot)
        if self._owed:
            self.snapshot()
        shelf.drop(self.folder, snapshot)

    def _moment(self, note: str) -> Moment:
        return Moment(
            self.stream, self.name, self.number, self._journal.chain, self._standing, self.monitor, self.paused,
            self.settings.plain(), note,
        )  # fmt: skip

    def tick(self) -> None:
        """With the policy `everysec`: sync if the last time is a second ago. For a timer, from any thread."""
        self._journal.flush(due=True)

    def _schedule(self) -> None:
        self._next = self._last + self.settings.every

    def _after(self) -> None:
        """After an event: a snapshot if it is time. The event is on disk already, so a failure here harms nothing."""
        try:
            if self.number >= self._next:
                self.snapshot()
            elif self._journal.is_long:
                self._journal.rotate()
        except StorageError as error:
            self._next = self.number + max(1, self.settings.every // 10)
            self._warn(f"after event {self.number}: {error}")

    def _warn(self, what: str) -> None:
        self.warnings = [*self.warnings[-19:], what]

    def _take_back(self, mark: tuple[int, bytes, int], cause: BaseException) -> None:
        """A step that failed by itself must not come again at every restart: take its records back."""
        try:
            self._journal.retract(*mark)
            self._standing = self.standing(self.number)
        except CosmicError as error:
            self.abandon()
            raise SessionError(f"a step failed and the session had to be closed: {error}; open it again.") from cause


def checked_about(about: Mapping[str, Any]) -> dict[str, Any]:
    """Return plain values as JSON would give them back; refuse what it cannot hold."""
    try:
        text = json.dumps(dict(about), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise SessionError(f"about must hold plain values, as JSON does: {error}.") from error
    if len(text) > LARGEST_ABOUT:
        raise SessionError(f"about may have {LARGEST_ABOUT} bytes; given {len(text)}.")
    plain: dict[str, Any] = json.loads(text)
    return plain


def _words(given: Sequence[str | None] | None, count: int, what: str) -> list[str | None]:
    if given is None:
        return [None] * count
    words = list(given)
    if isinstance(given, str) or len(words) != count:
        raise InputError(f"{what} must be one for each of the {count} samples; given {len(words)}.")
    for word in words:
        if word is not None and (not isinstance(word, str) or not 0 < len(word) <= NAME_LENGTH):
            raise InputError(f"{what} must be words of 1 to {NAME_LENGTH} characters, or None; given {word!r:.80}.")
    return words
