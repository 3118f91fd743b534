"""An evaluation plan: which methods run on which streams. It is checked as a whole, then expanded into jobs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

from cosmic_tta.core.errors import InputError, refuse_duplicates, unknown_name
from cosmic_tta.core.parameters import known_parameter
from cosmic_tta.evaluation.jobs import Job, fingerprint, open_pack
from cosmic_tta.evaluation.streams.registry import check_stream, find_kind
from cosmic_tta.features.pack import AUX_KINDS
from cosmic_tta.features.pack_ops import refuse_same_names
from cosmic_tta.methods import split_name
from cosmic_tta.training.checkpoint_file import match_methods

UNSEEDED_AUX = ("given", "none")  # auxiliary features that are the same for every seed


@dataclass(frozen=True)
class EvaluationPlan:
    """Methods × parameters × packs × orders × auxiliary features × seeds.

    Call `check` first: it raises every error that can be found before a method runs. Then `jobs` lists the runs.

    Args:
        packs: Folders of feature packs.
        methods: Methods to run, `name` or `name@preset`.
        parameters: Per entry of `methods`, the values to try for each parameter. All combinations are run.
        orders: Names of streams, `kind` or `kind:number`; see `STREAMS`.
        aux: Kinds of auxiliary features; see `FeaturePack.with_aux`.
        seeds: Seeds of the streams. Runs that would not differ by seed are run once.
        limit: Steps of each stream; None runs all.
        support: Folder of a pack of labelled shots, for few-shot methods.
        checkpoints: Files of `cosmic train`. Each goes to the method that it was trained for.
        tower: Encoder of the text tower, `family:model`; None takes the encoder of the pack.
        join: Join the packs into one: domains of the same task.
        guard: Let an admission policy decide which samples a method learns from.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> from cosmic_tta.features.synthetic import superclass_pack
        >>> with TemporaryDirectory() as folder:
        ...     superclass_pack(images=20).write(f"{folder}/pack")
        ...     plan = EvaluationPlan((f"{folder}/pack",), ("zero_shot", "tda"), {"tda": {"shots": (2, 4)}})
        ...     plan.check()
        ...     [str(job).split(" on ")[0] for job in plan.jobs()]
        ['zero_shot', 'tda shots=2', 'tda shots=4']
    """

    packs: tuple[str, ...]
    methods: tuple[str, ...]
    parameters: Mapping[str, Mapping[str, Sequence[Any]]] = field(default_factory=dict)
    orders: tuple[str, ...] = ("shuffle",)
    aux: tuple[str, ...] = ("given",)
    seeds: tuple[int, ...] = (0,)
    limit: int | None = None
    support: str | None = None
    checkpoints: tuple[str, ...] = ()
    tower: str | None = None
    join: bool = False
    guard: bool = False

    def check(self) -> None:
        """Raise the first error of the plan, before any method runs.

        Raises:
            CosmicError: A name is unknown, a value is out of range, a file is missing, or a method does not fit a
                pack. The message is one sentence that says what to change.
        """
        self.check_names()
        self._check_packs()
        self._check_resources()
        for job in self._expand(self.aux[:1], self.seeds[:1]):
            job.check()

    def jobs(self) -> list[Job]:
        """Return every job once: pack by pack, stream by stream, then by method, parameters, aux and seed."""
        found: dict[str, Job] = {}
        for job in self._expand(self.aux, self.seeds):
            if self._seed_matters(job) or job.seed == self.seeds[0]:
                found.setdefault(job.digest, job)
        return list(found.values())

    def check_names(self) -> None:
        """Raise what can be found without a file: unknown names, empty lists, names that are given twice."""
        for name in ("packs", "methods", "orders", "aux", "seeds"):
            entries = getattr(self, name)
            if not entries:
                raise InputError(f"{name} is empty; give at least one.")
            if name != "methods":
                refuse_duplicates(name, [str(entry) for entry in entries])
        kinds = [split_name(spec) for spec in self.methods]
        refuse_duplicates("methods", [f"{kind.name}@{preset}" for kind, preset in kinds])
        for spec, values in self.parameters.items():
            if spec not in self.methods:
                raise InputError(f"parameters of {spec!r} are given, but the plan runs {', '.join(self.methods)}.")
            for name, choices in values.items():
                known_parameter(split_name(spec)[0], name)
                if not choices:
                    raise InputError(f"the parameter {name!r} of {spec} has no values; give at least one.")
        for order in self.orders:
            find_kind(order)
        for aux in self.aux:
            if aux not in AUX_KINDS:
                raise unknown_name("kind of auxiliary features", aux, AUX_KINDS)

    def _check_packs(self) -> None:
        if self.join and len(self.packs) < 2:
            raise InputError(f"to join packs takes at least two; given {len(self.packs)}.")
        refuse_same_names({folder: open_pack(folder) for folder in self.packs})
        for folders, order, seed in product(self._pack_groups(), self.orders, self.seeds):
            check_stream(order, open_pack(*folders), seed, self.limit)

    def _check_resources(self) -> None:
        """Refuse a support, a checkpoint or a tower that no method uses, and a support that reveals labels."""
        if self.tower is not None and not self._users("tower"):
            raise InputError(
                f"the tower is for methods that learn prompts; {', '.join(self.methods)} would not use it."
            )
        match_methods(self.checkpoints, self.methods)
        if self.support is None:
            return
        users = self._users("support")
        if not users:
            raise InputError(f"the support is for few-shot methods; {', '.join(self.methods)} would not use it.")
        if fingerprint(self.support) in map(fingerprint, self.packs):
            raise InputError("the support must not be a pack that is evaluated: it would reveal the pack's labels.")
        for order in self.orders:
            if find_kind(order)[0].removes_classes:
                raise InputError(
                    f"{', '.join(users)}: the support has all classes, and the order {order!r} removes some."
                )

    def _users(self, resource: str) -> list[str]:
        """Return the methods that need a resource."""
        return [spec for spec in self.methods if resource in split_name(spec)[0].needs]

    def _expand(self, aux_kinds: Sequence[str], seeds: Sequence[int]) -> Iterator[Job]:
        checkpoints = match_methods(self.checkpoints, self.methods)
        for folders, order, spec in product(self._pack_groups(), self.orders, self.methods):
            needs = split_name(spec)[0].needs
            base = Job(
                spec,
                (),
                folders[0],
                order,
                limit=self.limit,
                support=self.support if "support" in needs else None,
                checkpoint=checkpoints.get(spec),
                tower=self.tower if "tower" in needs else None,
                joined_packs=folders[1:],
                guard=self.guard,
            )
            for parameters, aux, seed in product(self._combinations(spec), aux_kinds, seeds):
                yield replace(base, parameters=parameters, aux=aux, seed=seed)

    def _pack_groups(self) -> list[tuple[str, ...]]:
        """Return the folders of each evaluated pack: all together if they are joined."""
        return [self.packs] if self.join else [(folder,) for folder in self.packs]

    def _combinations(self, spec: str) -> list[tuple[tuple[str, Any], ...]]:
        choices = self.parameters.get(spec, {})
        names = sorted(choices)
        return [tuple(zip(names, chosen, strict=True)) for chosen in product(*(choices[name] for name in names))]

    def _seed_matters(self, job: Job) -> bool:
        return find_kind(job.order)[0].seeded or job.aux not in UNSEEDED_AUX
