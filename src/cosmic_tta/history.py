"""Events → what a session knows: folded one after the other, also from further back or without some source."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from cosmic_tta.carried import carry_both, kept_names, places
from cosmic_tta.core import Sample, Task
from cosmic_tta.errors import SessionDamaged, SessionError, SnapshotError
from cosmic_tta.guards import Judged, Reason, guarded_steps
from cosmic_tta.moments import Moment, Standing, Towering, read, snapshot_numbers, snapshot_path
from cosmic_tta.monitor import Monitor
from cosmic_tta.parameters import values
from cosmic_tta.records import Record, segments
from cosmic_tta.replay import Numbered, Reader, damaged

BLOCK = 64  # samples that a replay steps through at once
ANEW = ("reset", "rolled_back", "without")  # after them what was learned is something else
TURNS = ("rolled_back", "without")  # what comes before them is not simply continued


def as_record(kind: str, sample: Sample, source: str | None, tag: str | None) -> Record:
    """Return a sample as an event."""
    meta = {name: value for name, value in (("source", source), ("tag", tag)) if value is not None}
    arrays = {"clip": sample.clip} if sample.aux is None else {"clip": sample.clip, "aux": sample.aux}
    return Record(kind, meta, arrays)


def binding(standing: Standing) -> dict[str, Any]:
    """Return what never changes in a stream: another one of these is another stream."""
    task, method = standing.state.task, standing.method
    return {
        "method": method.name,
        "params": values(method),
        "logit_scale": task.logit_scale,
        "encoder": task.encoder,
        "aux_encoder": task.aux_encoder,
    }


def apply(
    standing: Standing, kind: str, numbers: Sequence[int], samples: Sequence[Sample], sources: Sequence[str | None]
) -> list[Judged]:
    """Let samples enter as the guard allows, or, of the kind `look`, be answered alone."""
    method, state, guard, remembered = standing.method, standing.state, standing.guard, standing.remembered
    if kind == "look":
        return [Judged(method.peek(state, sample), "paused") for sample in samples]
    reasons: list[Reason] = [""] * len(samples)
    if guard is not None and remembered is not None:
        reasons = [guard.judge(remembered, state.task, *one) for one in zip(samples, sources, strict=True)]
    judged = guarded_steps(method, state, reasons, samples)
    for number, source in zip(numbers, sources, strict=True):
        if source is not None:
            standing.sources.setdefault(source, [number, 0])[1] += 1
    return judged


def fresh(standing: Standing) -> Standing:
    """Return what is known when nothing was learned."""
    task, guard = standing.state.task, standing.guard
    remembered = None if guard is None else guard.init(task)
    return replace(standing, state=standing.method.init(task), remembered=remembered, sources={})


def changed(standing: Standing, record: Record) -> Standing:
    """Return what is known, for the classes that a record tells."""
    now, meta = standing.state.task, record.meta
    task = Task(
        tuple(meta["class_names"]), record.arrays["text"], now.logit_scale, now.aux_dim, now.encoder, now.aux_encoder,
        None if now.tower is None else now.tower.with_classes(tuple(meta["class_names"])),
    )  # fmt: skip
    names = kept_names(now, task, meta["renamed"])
    method, state = carry_both(standing.method, standing.state, task, names)
    remembered = standing.remembered
    if standing.guard is not None and remembered is not None:
        remembered = standing.guard.carry(remembered, state.task, places(now, task, names))
    about = dict(meta.get("about", standing.about))
    return replace(standing, method=method, state=state, remembered=remembered, about=about)


class Fold:
    """Events taken in, one after the other; samples in blocks, which gives the same."""

    def __init__(
        self,
        history: History,
        number: int,
        standing: Standing,
        paused: bool = False,
        monitor: Monitor | None = None,
        excluded: frozenset[str] = frozenset(),
    ) -> None:
        self.history, self.number, self.standing = history, number, standing
        self.paused, self.monitor, self.excluded = paused, monitor, excluded
        self.turned = False  # whether something was taken in that a later replay had better not need again
        self._kind, self._block = "", list[tuple[int, Sample, str | None, str | None]]()

    def take(self, number: int, record: Record) -> None:
        """Take an event in; SessionDamaged if that cannot be."""
        kind, meta = record.kind, record.meta
        try:
            if kind in ("step", "look"):
                if kind != self._kind or len(self._block) == BLOCK:
                    self.finish()
                self._kind = kind
                if meta.get("source") not in self.excluded and not (kind == "look" and self.monitor is None):
                    sample = Sample(record.arrays["clip"], record.arrays.get("aux"))
                    self._block.append((number, sample, meta.get("source"), meta.get("tag")))
            else:
                self.finish()
                self._turn(number, record)
        except SessionDamaged:
            raise
        except Exception as error:  # whatever it is: this stream is damaged, the others go on
            why = f"event {number} ({kind}) cannot be replayed: {error}"
            raise SessionDamaged(
                f"{why} Everything up to event {self.number} can be recovered.", self.number
            ) from error
        if not self._block:
            self.number = number

    def finish(self) -> None:
        """Step through the samples that wait."""
        if not self._block:
            return
        numbers, samples, sources, tags = (list(column) for column in zip(*self._block, strict=True))
        self._block.clear()
        try:
            self.standing.method.check_block(self.standing.state, samples)
            judged = apply(self.standing, self._kind, numbers, samples, sources)
            if self.monitor is not None:
                names = self.standing.state.task.class_names
                for one in zip(numbers, samples, judged, sources, tags, strict=True):
                    self.monitor.answer(*one, names)
        except Exception as error:
            why = f"event {numbers[0]} cannot be replayed: {error}"
            raise SessionDamaged(
                f"{why} Everything up to event {self.number} can be recovered.", self.number
            ) from error
        self.number = numbers[-1]

    def _turn(self, number: int, record: Record) -> None:
        kind, meta = record.kind, record.meta
        if kind in ("pause", "resume"):
            self.paused = kind == "pause"
            if self.monitor is not None and not self.paused:
                self.monitor.forgive(number)
        elif kind == "label":
            if self.monitor is not None:
                self.monitor.label(meta["of"], meta["class"])
        elif kind == "classes":
            self.standing = changed(self.standing, record)
            if self.monitor is not None:
                self.monitor.rename(meta["renamed"])
        elif kind == "reset":
            self.standing = fresh(self.standing)
        elif kind == "rolled_back":
            self.standing, self.turned = self.history.standing(meta["to"], self.excluded), True
        elif kind == "without":
            self.standing = self.history.standing(number - 1, self.excluded | {meta["source"]})
            self.turned = True
        else:
            raise SessionError(f"there is no such event as {kind!r}; a later version may know it.")
        if self.monitor is not None and kind in ANEW:
            self.monitor.turn(number)


class History:
    """What a session knew at some moment, from its snapshots and its journal."""

    def __init__(self, folder: Path, stream: str, tower: Towering | None = None) -> None:
        self.folder, self.stream, self.tower = folder, stream, tower

    def standing(self, number: int, excluded: frozenset[str]) -> Standing:
        """Return what was known after an event, had some sources never come."""
        turn = self._last_turn(number)
        after = turn.number if turn else 0
        base = self._snapshot(number, after, excluded)
        if base is not None:
            fold = Fold(self, base.number, base.standing, excluded=excluded)
        elif turn is not None:
            meta = turn.record.meta
            if turn.record.kind == "without":
                standing = self.standing(turn.number - 1, excluded | {meta["source"]})
            else:
                standing = self.standing(meta["to"], excluded)
            fold = Fold(self, turn.number, standing, excluded=excluded)
        else:
            raise SessionError(
                "the snapshots and the journal that are kept do not reach back that far; "
                "reset to forget all that was learned, or go on."
            )
        for numbered in self._records(fold.number, number):
            fold.take(numbered.number, numbered.record)
        fold.finish()
        return fold.standing

    def _records(self, after: int, number: int) -> Iterator[Numbered]:
        if number <= after:
            return
        reader = Reader(self.folder, self.stream, after, None)
        for numbered in reader:
            yield numbered
            if numbered.number >= number:
                return
        raise damaged(reader.damage) if reader.damage else SessionDamaged(f"the journal ends before event {number}.")

    def _last_turn(self, number: int) -> Numbered | None:
        """Return the last event up to a number that does not simply continue what came before."""
        kept = segments(self.folder)
        if not kept:
            return None
        found = None
        for numbered in self._records(min(kept[0][0] - 1, number), number):
            if numbered.record.kind in TURNS:
                found = numbered
        return found

    def _snapshot(self, number: int, after: int, excluded: frozenset[str]) -> Moment | None:
        for at in snapshot_numbers(self.folder):
            if after <= at <= number:
                try:
                    moment = read(snapshot_path(self.folder, at), self.stream, self.tower)
                except SnapshotError:
                    continue
                if not excluded & moment.standing.sources.keys():
                    return moment
        return None
