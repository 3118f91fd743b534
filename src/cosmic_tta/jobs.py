"""A job: one method over one pack in one order, as a value that any process or machine can run."""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from cosmic_tta import checkpoints
from cosmic_tta.core import Method
from cosmic_tta.errors import InputError
from cosmic_tta.evaluate import Run, score
from cosmic_tta.methods import make_method, split_name
from cosmic_tta.packs import FeaturePack
from cosmic_tta.parameters import values
from cosmic_tta.prompt_learning import Learned
from cosmic_tta.report import Report, as_rows, from_json, software
from cosmic_tta.streams import find_kind, make_stream
from cosmic_tta.towers import wants_tower, with_tower

OPEN_PACKS = 8  # that a process keeps open; their arrays are memory-mapped
PROBES = 16  # rows of a pack that its fingerprint reads, evenly spread


@dataclass(frozen=True)
class Job:
    """What to run. Paths say where packs lie on this machine; they are no part of the digest."""

    spec: str  # name or name@preset
    parameters: tuple[tuple[str, Any], ...]  # that differ from the preset, by name
    pack: str
    order: str = "shuffle"
    aux: str = "given"
    seed: int = 0
    limit: int | None = None
    support: str | None = None
    checkpoint: str | None = None  # a file of `cosmic train`
    tower: str | None = None  # the encoder whose text tower is learned through; the pack's own unless told

    @cached_property
    def digest(self) -> str:
        """A name for the job's result: the same for the same method, parameters, features and version."""
        kind, preset = split_name(self.spec)
        told: dict[str, Any] = {
            "method": f"{kind.name}@{preset}",
            "params": values(self._method()),
            "pack": fingerprint(self.pack),
            "support": self.support and fingerprint(self.support),
            "version": software()["cosmic-tta"],
        }
        if self.checkpoint or self.tower:
            told["learning"] = [self.checkpoint and read_checkpoint(self.checkpoint).digest, self.tower]
        told |= {name: getattr(self, name) for name in ("order", "aux", "seed", "limit")}
        return hashlib.blake2b(json.dumps(told, sort_keys=True).encode(), digest_size=10).hexdigest()

    def __str__(self) -> str:
        changed = "".join(f" {name}={value}" for name, value in self.parameters)
        aux = "" if self.aux == "given" else f", aux {self.aux}"
        return f"{self.spec}{changed} on {Path(self.pack).name}, {self.order}{aux}, seed {self.seed}"

    def _method(self) -> Any:
        extra: dict[str, Any] = {} if self.support is None else {"support": open_pack(self.support).support()}
        if self.checkpoint is not None:
            extra["checkpoint"] = read_checkpoint(self.checkpoint)
        return make_method(self.spec, **dict(self.parameters), **extra)

    def _pack(self) -> FeaturePack:
        pack = open_pack(self.pack)
        return with_tower(pack, self.tower) if wants_tower(split_name(self.spec)[0]) else pack

    def check(self) -> None:
        """Refuse a method that does not fit the pack."""
        pack = self._pack()
        if self.checkpoint is not None:
            checkpoints.refuse_own_shots(read_checkpoint(self.checkpoint), pack)
        fits(self._method(), pack, self.order, self.seed)


def fits(method: Method[Any], pack: FeaturePack, order: str, seed: int) -> None:
    """Refuse a method that cannot begin a stream of the pack; one that takes classes out of the task included."""
    narrows = find_kind(order)[0].narrows
    method.init((make_stream(order, pack, seed).pack if narrows else pack).task())


@lru_cache
def read_checkpoint(file: str) -> Learned:
    """Read a checkpoint, once a process."""
    return checkpoints.read(file)


@lru_cache(OPEN_PACKS)
def open_pack(folder: str) -> FeaturePack:
    """Open a pack, once a process; one that was given to it need not lie on its disk."""
    return _given[folder] if folder in _given else FeaturePack.open(folder)


_given: dict[str, FeaturePack] = {}


def give_pack(folder: str, pack: FeaturePack) -> None:
    """Let this process take a pack from memory instead of from its folder, which another machine has."""
    _given.setdefault(folder, pack)


@lru_cache
def fingerprint(folder: str) -> str:
    """Return a name for a pack's contents, wherever it lies: its words and shapes, texts, labels, some of its rows."""
    pack = open_pack(folder)
    told = [pack.name, pack.class_names, pack.logit_scale, pack.clip_model, pack.aux_model]
    digest = hashlib.blake2b(json.dumps(told).encode(), digest_size=16)
    for array in (pack.clip, pack.aux, pack.text, pack.labels):
        if array is None:
            continue
        digest.update(f"{array.dtype} {array.shape} ".encode())
        step = max(1, len(array) // PROBES) if array is pack.clip or array is pack.aux else 1
        digest.update(array[::step].tobytes())
    return digest.hexdigest()


def replay(job: Job) -> Run:
    """Run a job; the same on every machine with the same features, times aside."""
    preset = split_name(job.spec)[1]
    return score(
        job._method(), job._pack(), preset=preset, order=job.order, aux=job.aux, seed=job.seed, limit=job.limit
    )


def run_job(job: Job) -> Report:
    """Run a job and return its report."""
    return replay(job).report


def report_file(folder: Path, job: Job) -> Path:
    """Return where a job's report is kept."""
    return folder / f"{job.digest}.json"


def samples_file(folder: Path, job: Job) -> Path:
    """Return where a job's answers are kept, sample by sample."""
    return folder / f"{job.digest}.npz"


def run_and_store(job: Job, folder: Path, *, samples: bool = False) -> Report:
    """Run a job and keep its report, and the samples before it if wanted: a report that is there is whole."""
    run = replay(job)
    if samples:
        target = samples_file(folder, job)
        unfinished = _unfinished(target)
        try:
            run.save_samples(str(unfinished))
            _settle(unfinished, target)
        finally:
            unfinished.unlink(missing_ok=True)
    store(report_file(folder, job), run.report)
    return run.report


def store(file: Path, report: Report) -> None:
    """Write a report as a list of one, as `--json` does; the file appears whole or not at all."""
    put(file, (json.dumps(as_rows([report]), indent=1, ensure_ascii=False) + "\n").encode())


def put(file: Path, content: bytes) -> None:
    """Write a result; the file appears whole or not at all."""
    unfinished = _unfinished(file)
    try:
        unfinished.write_bytes(content)
        _settle(unfinished, file)
    finally:
        unfinished.unlink(missing_ok=True)


def stored(job: Job, folder: Path, *, samples: bool = False) -> Report | None:
    """Return the report of a job that is done; None if there is none, or what is there is damaged or another's."""
    try:
        (report,) = from_json(report_file(folder, job).read_text(encoding="utf-8"))
    except (OSError, ValueError, InputError):
        return None
    kind, preset = split_name(job.spec)
    wanted: Mapping[str, Any] = {
        "method": kind.name, "preset": preset, "params": values(job._method()), "order": job.order, "aux": job.aux,
        "seed": job.seed,
    }  # fmt: skip
    if any(getattr(report, name) != value for name, value in wanted.items()):
        return None
    if samples and not zipfile.is_zipfile(samples_file(folder, job)):
        return None
    return report


def _unfinished(file: Path) -> Path:
    return file.with_name(f".{file.name}.{os.getpid()}.unfinished")


def _settle(unfinished: Path, file: Path) -> None:
    """Have a file on disk before it gets its name."""
    with open(unfinished, "r+b") as written:
        os.fsync(written.fileno())
    unfinished.replace(file)
