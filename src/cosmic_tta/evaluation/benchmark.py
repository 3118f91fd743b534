"""A benchmark: methods × packs × auxiliary features × streams × seeds, as jobs of a sweep.

A pack without labels, a stream that a pack cannot serve and a method that does not fit a pack are left out with a
reason. `benchmark_summary` compares the methods by the reports of the jobs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from cosmic_tta.core.errors import CosmicError, InputError, PackError
from cosmic_tta.evaluation.jobs import Job, open_pack
from cosmic_tta.evaluation.plan import EvaluationPlan
from cosmic_tta.evaluation.streams.registry import find_kind, make_stream
from cosmic_tta.features.pack import FeaturePack
from cosmic_tta.features.pack_ops import refuse_same_names
from cosmic_tta.methods import METHODS, split_name

DEFAULT_STREAMS = (
    "shuffle", "long-tailed", "class-sequential", "dirichlet", "few-classes", "switching", "open-set",
)  # fmt: skip
DEFAULT_AUX = ("given", "none")
DEFAULT_SEEDS = (0, 1, 2)
HEAD = "pack.json"  # the file that makes a folder a pack


def default_methods() -> tuple[str, ...]:
    """Return every preset of every method that needs nothing but features, plug-ins included.

    >>> default_methods()[:3]
    ('zero_shot', 'dmn', 'tda')
    """
    return tuple(
        name if preset == "default" else f"{name}@{preset}"
        for name, kind in METHODS.items()
        if not kind.needs
        for preset in sorted(kind.presets, key=lambda preset: (preset != "default", preset))
    )


def find_packs(folders: Sequence[str | Path]) -> tuple[str, ...]:
    """Return the folders of packs: each given one that is a pack, else the packs directly inside of it, by name.

    Args:
        folders: Packs, and folders that hold packs.

    Returns:
        The packs, each once.

    Raises:
        PackError: A folder is missing, or is no pack and holds none.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> from cosmic_tta.features.synthetic import superclass_pack
        >>> with TemporaryDirectory() as folder:
        ...     superclass_pack(images=20).write(f"{folder}/one")
        ...     superclass_pack(images=20).write(f"{folder}/two")
        ...     [Path(pack).name for pack in find_packs([folder])]
        ['one', 'two']
    """
    found: dict[Path, str] = {}
    for folder in map(Path, folders):
        if not folder.is_dir():
            raise PackError(f"no folder at {str(folder)!r}; give a pack, or a folder that holds packs.")
        inside = [folder] if (folder / HEAD).is_file() else sorted(file.parent for file in folder.glob(f"*/{HEAD}"))
        inside = [pack for pack in inside if not pack.name.startswith(".")]  # a hidden one is not finished
        if not inside:
            raise PackError(
                f"no packs found in {str(folder)!r}: it has no pack.json, and neither has a folder inside of it. "
                "`cosmic extract` makes packs."
            )
        for pack in inside:
            found.setdefault(pack.resolve(), str(pack))
    return tuple(found.values())


@dataclass(frozen=True)
class BenchmarkPlan:
    """Methods × packs × auxiliary features × streams × seeds. Call `check`, then run `jobs`.

    Args:
        packs: Folders of packs; see `find_packs`.
        methods: Methods, `name` or `name@preset`, that need no support, checkpoint or text tower.
        streams: Names of streams, `kind` or `kind:number`; see `STREAMS`.
        aux: Kinds of auxiliary features. A pack that has none runs once, under `none`.
        seeds: Seeds of the streams.
        limit: Steps of each stream; None runs all.
        parameters: Per method, the values to try for each parameter. All combinations are run, and the preset.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> from cosmic_tta.features.synthetic import superclass_pack
        >>> with TemporaryDirectory() as folder:
        ...     superclass_pack(images=20).write(f"{folder}/pack")
        ...     plan = BenchmarkPlan((f"{folder}/pack",), ("zero_shot", "tda"), ("shuffle", "switching"), seeds=(0,))
        ...     plan.check()
        ...     len(plan.jobs), plan.left_out
        (8, ())
    """

    packs: tuple[str, ...]
    methods: tuple[str, ...]
    streams: tuple[str, ...] = DEFAULT_STREAMS
    aux: tuple[str, ...] = DEFAULT_AUX
    seeds: tuple[int, ...] = DEFAULT_SEEDS
    limit: int | None = None
    parameters: Mapping[str, Mapping[str, Sequence[Any]]] = field(default_factory=dict)

    def check(self) -> None:
        """Raise the first error of the plan, before any method runs.

        Raises:
            CosmicError: A name is unknown, a value is out of range, a pack is damaged, or nothing is left to run.
        """
        names = EvaluationPlan(self.packs, self.methods, self.parameters, self.streams, self.aux, self.seeds)
        names.check_names()
        if self.limit is not None and self.limit < 1:
            raise InputError(f"the limit must be at least 1; given {self.limit}.")
        for spec in self.methods:
            needs = split_name(spec)[0].needs
            if needs:
                raise InputError(
                    f"{spec} needs a {' and a '.join(needs)}; a benchmark runs methods that need features alone. "
                    "Use `cosmic eval` or `cosmic sweep` for it."
                )
        refuse_same_names({folder: open_pack(folder) for folder in self.packs})
        if not self.jobs:
            raise InputError(f"nothing is left to run. {' '.join(self.left_out)}")

    @property
    def jobs(self) -> list[Job]:
        """Every job once, pack by pack."""
        return self._jobs_and_reasons[0]

    @property
    def left_out(self) -> tuple[str, ...]:
        """One sentence for each pack, stream or method that is left out."""
        return self._jobs_and_reasons[1]

    @cached_property
    def datasets(self) -> dict[str, str]:
        """Per name of a pack, the name of its data set. Packs with the same classes are of one data set."""
        groups: dict[frozenset[str], list[str]] = {}
        for pack in map(open_pack, self.packs):
            groups.setdefault(frozenset(pack.class_names), []).append(pack.name)
        return {name: " + ".join(names) for names in groups.values() for name in names}

    @cached_property
    def _jobs_and_reasons(self) -> tuple[list[Job], tuple[str, ...]]:
        found: dict[str, Job] = {}
        reasons: list[str] = []
        for folder in self.packs:
            for job in self._jobs_of(folder, reasons):
                found.setdefault(job.digest, job)
        return list(found.values()), tuple(reasons)

    def _jobs_of(self, folder: str, reasons: list[str]) -> Iterator[Job]:
        """Yield the jobs of a pack; add to the reasons what is left out."""
        pack = open_pack(folder)
        if pack.labels is None:
            reasons.append(f"The pack {pack.name!r} is left out: it has no labels, so no accuracy can be measured.")
            return
        streams = tuple(name for name in self.streams if _serves(pack, name, self.seeds[0], reasons))
        if not streams:
            return
        aux = self.aux if pack.aux is not None else ("none",)
        for spec in self.methods:
            variants: list[dict[str, Mapping[str, Sequence[Any]]]] = [{}]
            if self.parameters.get(spec):
                variants.append({spec: self.parameters[spec]})
            plans = [
                EvaluationPlan((folder,), (spec,), each, streams, aux, self.seeds, self.limit) for each in variants
            ]
            jobs = [job for plan in plans for job in plan.jobs()]  # refuses a value that is out of range
            try:
                for plan in plans:
                    plan.check()
            except CosmicError as error:
                reasons.append(f"{spec} is left out on the pack {pack.name!r}: {error}")
                continue
            yield from jobs


def _serves(pack: FeaturePack, name: str, seed: int, reasons: list[str]) -> bool:
    """Return whether the pack can serve a stream; else add the reason."""
    find_kind(name)
    try:
        make_stream(name, pack, seed)
    except CosmicError as error:
        reasons.append(f"The stream {name!r} is left out on the pack {pack.name!r}: {error}")
        return False
    return True
