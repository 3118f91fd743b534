"""The settings of an experiment: packs, seeds and a limit; and the runs that several experiments share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cosmic_tta.core.errors import CosmicError, InputError
from cosmic_tta.core.method import Method
from cosmic_tta.core.types import Support
from cosmic_tta.evaluation.evaluator import EvaluationRun, run_evaluation
from cosmic_tta.features.pack import FeaturePack
from cosmic_tta.features.text_towers import attach_tower, needs_prompt_tower
from cosmic_tta.methods import make_method, split_name
from cosmic_tta.methods.components.training import Checkpoint
from cosmic_tta.reporting.paper.embedded_packs import (
    STREAM_IMAGES,
    embedded_checkpoint,
    embedded_pack,
    embedded_shots,
    embedded_with_generated_views,
)
from cosmic_tta.training.checkpoint_file import refuse_own_shots

SEEDS = (0, 1, 2)
MAX_CACHED_BYTES = 64 << 20  # per run; a larger run is computed again when it is asked for again
MULTI_VIEW_METHODS = ("tpt", "difftpt")  # they learn from several views of an image
ProgressCallback = Callable[[int, int, str], None]  # done, total, what is running


def ignore_progress(done: int, total: int, remark: str) -> None:
    """Report progress to nobody."""


@dataclass(frozen=True)
class ExperimentContext:
    """What an experiment runs on, and how.

    Labels belong to the evaluator: a chart may colour by them, a method never sees them.

    Args:
        packs: Feature packs; without any, the embedded photographs under a shift.
        seeds: Seeds of the stream orders; one run per seed.
        limit: Only the first so many images of each stream.
        oracle: Add results of fusion weights that are searched on labels, in columns of their own.
        on_progress: Called with the number of images done, their total, and what is running.
        support: Labelled training features for few-shot methods.
        checkpoints: Trained checkpoints by the name of the method.
        tower: Encoder whose text tower prompt tuning uses; None takes the pack's own.
        excluded: Names of methods that are not run.
        cached_runs: Runs that were computed already.

    Examples:
        >>> from cosmic_tta.features.synthetic import superclass_pack
        >>> pack = superclass_pack(0, images=20, dim=16)
        >>> context = ExperimentContext((pack,), seeds=(0, 1), limit=10)
        >>> context.run("zero_shot", pack).report.n
        10
        >>> context.why_not_runnable("tda", pack)
        ''
    """

    packs: tuple[FeaturePack, ...] = ()
    seeds: tuple[int, ...] = SEEDS
    limit: int | None = None
    oracle: bool = False
    on_progress: ProgressCallback = ignore_progress
    support: FeaturePack | None = None
    checkpoints: Mapping[str, Checkpoint] = field(default_factory=dict)
    tower: str | None = None
    excluded: tuple[str, ...] = ()
    cached_runs: dict[Any, EvaluationRun] = field(default_factory=dict, repr=False, compare=False)

    @property
    def evaluated_packs(self) -> tuple[FeaturePack, ...]:
        """The given packs, or the embedded one."""
        return self.packs or (embedded_pack(),)

    @property
    def settings(self) -> dict[str, Any]:
        """The settings that a result set records."""
        return {
            "packs": [pack.name for pack in self.evaluated_packs],
            "seeds": list(self.seeds),
            "limit": self.limit,
            "oracle": self.oracle,
        }

    def labelled_packs(self, packs: Sequence[FeaturePack] | None = None) -> tuple[list[FeaturePack], list[str]]:
        """Return the packs with labels, and one sentence for each pack without."""
        packs = self.evaluated_packs if packs is None else packs
        labelled = [pack for pack in packs if pack.labels is not None]
        missing = [f"{pack.name}: no labels, so no accuracy." for pack in packs if pack.labels is None]
        return labelled, missing

    def why_not_runnable(self, spec: str, pack: FeaturePack) -> str:
        """Return why a method cannot run on a pack, without a full stop; empty if it can."""
        name = split_name(spec)[0].name
        if name in self.excluded:
            return "left out"
        if name in MULTI_VIEW_METHODS and pack.clip.shape[1] == 1:
            return "needs several views per image, and the pack has one; make them: cosmic extract --views 64"
        if name == "difftpt" and not generated_views(pack) and not self._leaves_shots(pack):
            return "needs views from a diffusion model; make them: cosmic draw-views, then cosmic extract --views-from"
        try:
            self.prepare(spec, pack)
        except CosmicError as error:
            return str(error).rstrip(".")
        return ""

    def prepare(self, spec: str, pack: FeaturePack, **parameters: Any) -> tuple[Method[Any], FeaturePack]:
        """Return a method that is ready to run, and the pack with everything that the method needs."""
        kind, _ = split_name(spec)
        resources: dict[str, Any] = {}
        if "support" in kind.needs:
            resources["support"] = self._support(pack)
        if "checkpoint" in kind.needs and (checkpoint := self._checkpoint(kind.name, pack)) is not None:
            refuse_own_shots(checkpoint, pack)
            resources["checkpoint"] = checkpoint
        if kind.name == "difftpt":
            pack = pack if generated_views(pack) else embedded_with_generated_views()
            parameters = {"generated": generated_views(pack)} | parameters
        method = make_method(spec, **parameters, **resources)
        if needs_prompt_tower(method):
            pack = attach_tower(pack, self.tower)
        method.init(pack.task())
        return method, pack

    def _support(self, pack: FeaturePack) -> Support:
        if self.support is not None:
            return self.support.support()
        if self._leaves_shots(pack):
            return embedded_shots()
        raise InputError("a few-shot method needs labelled training features: --support PACK.")

    def _checkpoint(self, method: str, pack: FeaturePack) -> Checkpoint | None:
        if method in self.checkpoints:
            return self.checkpoints[method]
        return embedded_checkpoint(method) if self._leaves_shots(pack) else None

    def _leaves_shots(self, pack: FeaturePack) -> bool:
        """Return whether a pack is the embedded stream, so that the other embedded photographs can be shots."""
        return not self.packs and len(pack) <= STREAM_IMAGES

    def run(
        self, spec: str, pack: FeaturePack, seed: int | None = None, aux: str = "given", **parameters: Any
    ) -> EvaluationRun:
        """Run a method over a pack in shuffled order, or return the run if it was computed before.

        Args:
            spec: `name` or `name@preset` of the method.
            pack: The pack.
            seed: Seed of the order; the first of the context's seeds if None.
            aux: Auxiliary features: given, none, shuffled, random.
            **parameters: Parameters of the method that differ from the preset.

        Returns:
            The run.
        """
        seed = self.seeds[0] if seed is None else seed
        changed = tuple(sorted((name, str(value)) for name, value in parameters.items()))
        key = (spec, changed, pack.name, pack.clip.shape, pack.aux_model, seed, aux, self.limit)
        if key in self.cached_runs:
            return self.cached_runs[key]
        method, pack = self.prepare(spec, pack, **parameters)
        remark = f"{spec}{''.join(f' {name}={value}' for name, value in changed)} on {pack.name}, seed {seed}"
        run = run_evaluation(
            method,
            pack,
            preset=split_name(spec)[1],
            aux=aux,
            seed=seed,
            limit=self.limit,
            calibrate=False,
            watch=lambda step: self.on_progress(step.done, step.total, remark),
        )
        if run.scores.nbytes * (1 + len(run.parts)) <= MAX_CACHED_BYTES:
            self.cached_runs[key] = run
        return run


def generated_views(pack: FeaturePack) -> int:
    """Return how many of a pack's views, the last ones, a diffusion model generated."""
    return int(pack.provenance.get("generated views", {}).get("count", 0))
