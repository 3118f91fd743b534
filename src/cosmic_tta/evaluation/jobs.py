"""A job is one run of one method over one stream, as a value that any process or machine can execute.

`run_job` executes a job. `run_and_store` also writes its result into a folder, under the job's digest.
"""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from cosmic_tta.core.errors import InputError
from cosmic_tta.core.files import write_atomic
from cosmic_tta.core.method import Method
from cosmic_tta.core.parameters import values
from cosmic_tta.evaluation.evaluator import EvaluationProgress, EvaluationRun, run_evaluation
from cosmic_tta.evaluation.report import Report, as_rows, from_json, software
from cosmic_tta.evaluation.streams.registry import find_kind, make_stream
from cosmic_tta.features.pack import FeaturePack
from cosmic_tta.features.pack_ops import join
from cosmic_tta.features.text_towers import attach_tower, needs_prompt_tower
from cosmic_tta.methods import make_method, split_name
from cosmic_tta.methods.components.training import Checkpoint
from cosmic_tta.sessions.admission import AdmissionPolicy
from cosmic_tta.training import checkpoint_file

MAX_OPEN_PACKS = 8  # per process; their arrays are memory-mapped
FINGERPRINT_ROWS = 16  # feature rows that a fingerprint reads, evenly spread


@dataclass(frozen=True)
class Job:
    """One method, its parameters and the stream that it runs on.

    Paths name files on this machine. They do not enter the digest; the contents of the files do.

    >>> print(Job("tda", (("shots", 2),), "packs/flowers", seed=1))
    tda shots=2 on flowers, shuffle, seed 1
    """

    spec: str  # name or name@preset
    parameters: tuple[tuple[str, Any], ...]  # that differ from the preset, by name
    pack: str  # a folder
    order: str = "shuffle"
    aux: str = "given"
    seed: int = 0
    limit: int | None = None
    support: str | None = None  # a folder, for few-shot methods
    checkpoint: str | None = None  # a file of `cosmic train`
    tower: str | None = None  # encoder of the text tower; None: the encoder of the pack
    joined_packs: tuple[str, ...] = ()  # folders of further domains, joined to the pack
    guard: bool = False  # does an admission policy decide which samples the method learns from?

    @property
    def pack_folders(self) -> tuple[str, ...]:
        """Every pack that the job opens: those of the stream, then the support."""
        return (*self._stream_folders, *(() if self.support is None else (self.support,)))

    @property
    def preset(self) -> str:
        """The preset under which the run is reported."""
        name = split_name(self.spec)[1]
        return f"{name}+guard" if self.guard else name

    @cached_property
    def digest(self) -> str:
        """The name of the job's result: equal for equal methods, parameters, features and versions."""
        contents: dict[str, Any] = {
            "method": f"{split_name(self.spec)[0].name}@{self.preset}",
            "params": values(self.make_method()),
            "pack": fingerprint(*self._stream_folders),
            "support": self.support and fingerprint(self.support),
            "version": software()["cosmic-tta"],
        }
        if self.checkpoint or self.tower:
            contents["learning"] = [self.checkpoint and read_checkpoint(self.checkpoint).digest, self.tower]
        contents |= {name: getattr(self, name) for name in ("order", "aux", "seed", "limit")}
        return hashlib.blake2b(json.dumps(contents, sort_keys=True).encode(), digest_size=10).hexdigest()

    def __str__(self) -> str:
        changed = "".join(f" {name}={value}" for name, value in self.parameters)
        packs = " + ".join(Path(folder).name for folder in self._stream_folders)
        aux = "" if self.aux == "given" else f", aux {self.aux}"
        return f"{self.spec}{changed} on {packs}, {self.order}{aux}, seed {self.seed}"

    @property
    def _stream_folders(self) -> tuple[str, ...]:
        return (self.pack, *self.joined_packs)

    def make_method(self) -> Method[Any]:
        """Make the method with its parameters, support and checkpoint."""
        resources: dict[str, Any] = {}
        if self.support is not None:
            resources["support"] = open_pack(self.support).support()
        if self.checkpoint is not None:
            resources["checkpoint"] = read_checkpoint(self.checkpoint)
        return make_method(self.spec, **dict(self.parameters), **resources)

    def load_pack(self) -> FeaturePack:
        """Open the pack, with a text tower if the method needs one."""
        pack = open_pack(*self._stream_folders)
        return attach_tower(pack, self.tower) if needs_prompt_tower(split_name(self.spec)[0]) else pack

    def check(self) -> None:
        """Refuse a method that does not fit the pack, or that was trained on the pack's own labels."""
        pack = self.load_pack()
        if self.checkpoint is not None:
            checkpoint_file.refuse_own_shots(read_checkpoint(self.checkpoint), pack)
        check_fit(self.make_method(), pack, self.order, self.seed)


def check_fit(method: Method[Any], pack: FeaturePack, order: str, seed: int) -> None:
    """Refuse a method that cannot start on a stream of the pack."""
    narrowed = find_kind(order)[0].removes_classes
    method.init((make_stream(order, pack, seed).pack if narrowed else pack).task())


@lru_cache
def read_checkpoint(file: str) -> Checkpoint:
    """Read a checkpoint, once per process."""
    return checkpoint_file.read(file)


@lru_cache(MAX_OPEN_PACKS)
def open_pack(*folders: str) -> FeaturePack:
    """Open a pack, once per process. Several folders are joined into one pack."""
    if len(folders) > 1:
        return join([open_pack(folder) for folder in folders])
    (folder,) = folders
    return _packs_in_memory[folder] if folder in _packs_in_memory else FeaturePack.open(folder)


_packs_in_memory: dict[str, FeaturePack] = {}


def register_pack(folder: str, pack: FeaturePack) -> None:
    """Let `open_pack` return this pack for a folder that only another machine has."""
    _packs_in_memory.setdefault(folder, pack)


@lru_cache
def fingerprint(*folders: str) -> str:
    """Return a digest of a pack's contents: names, shapes, texts, labels and some of its feature rows."""
    pack = open_pack(*folders)
    metadata = [pack.name, pack.class_names, pack.logit_scale, pack.clip_model, pack.aux_model]
    digest = hashlib.blake2b(json.dumps(metadata).encode(), digest_size=16)
    for array in (pack.clip, pack.aux, pack.text, pack.labels):
        if array is None:
            continue
        digest.update(f"{array.dtype} {array.shape} ".encode())
        step = max(1, len(array) // FINGERPRINT_ROWS) if array is pack.clip or array is pack.aux else 1
        digest.update(array[::step].tobytes())
    return digest.hexdigest()


def run_job(job: Job, watch: Callable[[EvaluationProgress], None] | None = None) -> EvaluationRun:
    """Run a job. The result is the same on every machine with the same features, except for its times.

    Args:
        job: What to run.
        watch: Called after every step.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> from cosmic_tta.features.synthetic import superclass_pack
        >>> with TemporaryDirectory() as folder:
        ...     superclass_pack(0, images=20, dim=16).write(f"{folder}/pack")
        ...     run = run_job(Job("tda", (), f"{folder}/pack"))
        >>> run.report.method, run.report.n
        ('tda', 20)
    """
    return run_evaluation(
        job.make_method(),
        job.load_pack(),
        preset=job.preset,
        order=job.order,
        aux=job.aux,
        seed=job.seed,
        limit=job.limit,
        watch=watch,
        guard=AdmissionPolicy() if job.guard else None,
    )


def report_file(folder: Path, job: Job) -> Path:
    """Return the file of a job's report."""
    return folder / f"{job.digest}.json"


def samples_file(folder: Path, job: Job) -> Path:
    """Return the file of a job's scores per sample."""
    return folder / f"{job.digest}.npz"


def run_and_store(job: Job, folder: Path, *, samples: bool = False) -> Report:
    """Run a job and write its result. The report is written last, so a job with a report is complete."""
    run = run_job(job)
    if samples:
        run.save_samples(samples_file(folder, job))
    rows = json.dumps(as_rows([run.report]), indent=1, ensure_ascii=False)
    write_atomic(report_file(folder, job), f"{rows}\n".encode())
    return run.report


def stored_report(job: Job, folder: Path, *, samples: bool = False) -> Report | None:
    """Return the report of a complete job, or None if it is missing, damaged or of another job."""
    try:
        (report,) = from_json(report_file(folder, job).read_text(encoding="utf-8"))
    except (OSError, ValueError, InputError):
        return None
    expected: Mapping[str, Any] = {
        "method": split_name(job.spec)[0].name,
        "preset": job.preset,
        "params": values(job.make_method()),
        "order": job.order,
        "aux": job.aux,
        "seed": job.seed,
    }
    if any(getattr(report, name) != value for name, value in expected.items()):
        return None
    if samples and not zipfile.is_zipfile(samples_file(folder, job)):
        return None
    return report
