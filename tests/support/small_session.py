"""Small sessions, a script of all kinds of events, and disks and files that fail."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest

from cosmic_tta import METHODS, Method, Sample, Task, make_method
from cosmic_tta.core import files
from cosmic_tta.core.errors import CosmicError
from cosmic_tta.features.pack import FeaturePack
from cosmic_tta.features.synthetic import superclass_pack
from cosmic_tta.sessions.session import Session

# Methods whose state a session keeps; those that learn prompts have a test of their own.
SPECS = [
    f"{name}@{preset}"
    for name, kind in METHODS.items()
    if not {"tower", "checkpoint"} & set(kind.needs)
    for preset in kind.presets
]


@cache
def small_pack(images: int = 80) -> FeaturePack:
    return superclass_pack(11, images=images, superclasses=2, members=2, views=2, dim=8, aux_dim=6)


@cache
def small_samples(images: int = 80) -> list[Sample]:
    pack = small_pack(images)
    return [pack.sample(index) for index in range(len(pack))]


def small_method(spec: str) -> Method[Any]:
    needs = METHODS[spec.split("@", maxsplit=1)[0]].needs
    return make_method(spec, **({"support": small_pack().support()} if "support" in needs else {}))


def small_session(folder: Path, spec: str = "tda", **how: Any) -> Session:
    return Session.create(folder, "small", small_pack().task(), small_method(spec), **how)


def other_task(session: Session, gone: int | None, new: tuple[str, ...]) -> Task:
    """Return the session's task without one of its classes and with some new ones."""
    task = session.task
    kept = [index for index in range(task.classes) if index != gone]
    rows = [np.random.default_rng(sum(name.encode())).standard_normal(task.dim) for name in new]
    text = [task.text[kept], *((row / np.linalg.norm(row)).astype(np.float32)[None] for row in rows)]
    names = (*(task.class_names[index] for index in kept), *new)
    return replace(task, class_names=names, text=np.concatenate(text))


def renaming(session: Session) -> None:
    task = session.task
    names = ("renamed", *task.class_names[1:])
    session.change_classes(replace(task, class_names=names), {task.class_names[0]: "renamed"})


Action = Callable[[Session], Any]


def script() -> list[Action]:
    """Return actions that make every kind of event, one event each, with snapshots between them."""
    samples = small_samples()

    def step(number: int, source: str | None = None) -> Action:
        return lambda session: session.step([samples[number]], sources=[source], tags=[f"image {number}"])

    first = [step(number, "one" if number % 3 else "other") for number in range(6)]
    return [
        *first,
        lambda session: session.label(2, session.task.class_names[1]),
        lambda session: session.pause(),
        step(6),
        lambda session: session.resume(),
        step(7, "one"),
        lambda session: session.snapshot("kept"),
        step(8, "other"),
        lambda session: session.change_classes(other_task(session, 1, ("new one",))),
        *[step(number, "one") for number in range(9, 13)],
        renaming,
        step(13),
        lambda session: session.label(3, "renamed"),
        lambda session: session.roll_back(next(one.id for one in session.snapshots() if one.note == "kept")),
        step(14, "other"),
        step(15, "third"),
        lambda session: session.forget_source("third"),
        step(16),
        lambda session: session.reset(),
        step(17),
        step(18, "one"),
    ]


def undisturbed(folder: Path, actions: list[Action], spec: str = "tda", **how: Any) -> dict[int, str]:
    """Run actions without faults; return the fingerprint of the session after each event."""
    session = small_session(folder, spec, **how)
    digests = {0: session.digest()}
    for action in actions:
        action(session)
        digests[session.number] = session.digest()
    session.close()
    return digests


Files = dict[str, bytes]


def contents(folder: Path) -> Files:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "lock"}


def write_files(folder: Path, files: Files) -> None:
    """Write these files into a folder, and remove all others."""
    folder.mkdir(exist_ok=True)
    for path in folder.iterdir():
        path.unlink()
    for name, content in files.items():
        (folder / name).write_bytes(content)


def in_memory(prefix: str) -> TemporaryDirectory[str]:
    """Return a temporary folder, in memory where the system has such a disk."""
    shared = "/dev/shm"
    return TemporaryDirectory(prefix=prefix, dir=shared if os.access(shared, os.W_OK) else None)


def outcome(folder: Path, files: Files, digests: dict[int, str]) -> str:
    """Open files: `whole`, `prefix`, `refused` or `lost`; a state that never existed fails the test."""
    write_files(folder, files)
    last = max(digests)
    try:
        session = Session.open(folder)
    except CosmicError as error:
        recoverable = getattr(error, "recoverable", None)
        return recovered(folder, digests, recoverable)
    assert session.digest() == digests[session.number], "a state that never existed"
    number = session.number
    session.step(small_samples()[-1:])  # it can continue
    session.abandon()
    return "whole" if number == last else "prefix"


def recovered(folder: Path, digests: dict[int, str], recoverable: int | None) -> str:
    try:
        session = Session.open(folder, recover=True)
    except CosmicError:
        return "lost"
    assert recoverable in (None, session.number)
    assert session.digest() == digests[session.number], "a state that never existed was recovered"
    session.abandon()
    again = Session.open(folder)
    assert again.digest() == digests[session.number], "the recovered state did not last"
    again.abandon()
    return "refused"


class FaultyOs:
    """The operating system with one failing call, the `at`th, or with all calls failing from there on."""

    CALLS = ("open", "write", "fsync", "ftruncate", "replace", "unlink", "mkdir")

    def __init__(self, at: int, code: int = errno.EIO, *, lasting: bool = False, short: bool = False) -> None:
        self.at, self.code, self.lasting, self.short = at, code, lasting, short
        self.calls = 0
        self.broken = True

    def __getattr__(self, name: str) -> Any:
        real = getattr(os, name)
        if name not in self.CALLS:
            return real

        def call(*given: Any, **how: Any) -> Any:
            self.calls += 1
            fails = self.broken and (self.calls >= self.at if self.lasting else self.calls == self.at)
            if fails and not self.lasting:
                self.broken = False
            if fails and name == "write" and self.short:
                os.write(given[0], given[1][: len(given[1]) // 2])
            if fails:
                raise OSError(self.code, os.strerror(self.code))
            if name == "fsync":
                return None  # there is no power cut here
            if name == "write" and self.short and self.calls % 7 == 0 and len(given[1]) > 1:
                return os.write(given[0], given[1][: len(given[1]) // 2])  # a partial write is no fault
            return real(*given, **how)

        return call


@contextmanager
def faulty_disk(faults: FaultyOs) -> Iterator[FaultyOs]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "os", faults)
        yield faults
