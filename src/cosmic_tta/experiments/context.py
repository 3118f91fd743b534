"""What an experiment is given: packs, seeds, a limit, and runs that are made once and kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cosmic_tta.checkpoints import refuse_own_shots
from cosmic_tta.core import Method, Support
from cosmic_tta.errors import CosmicError, InputError
from cosmic_tta.evaluate import Run, score
from cosmic_tta.experiments.embedded import STREAM, embedded_drawn, embedded_lesson, embedded_pack, embedded_shots
from cosmic_tta.methods import make_method, split_name
from cosmic_tta.packs import FeaturePack
from cosmic_tta.prompt_learning import Learned
from cosmic_tta.towers import wants_tower, with_tower

SEEDS = (0, 1, 2)
KEPT = 64 << 20  # bytes: larger runs are made anew when they are asked for again
COMPARING = ("tpt", "difftpt")  # learn from several views of an image
Watch = Callable[[int, int, str], None]


def silent(done: int, total: int, remark: str) -> None:
    """Tell nobody."""


@dataclass(frozen=True)
class Context:
    """One call of `cosmic paper`: what to run on, and how.

    Without packs an experiment takes the embedded photographs under a shift (`streams`). `run` gives a method's run
    over a pack; it keeps what it gave, since several experiments ask for the same. Labels are the evaluator's: a
    chart may colour by them, a method never sees them.
    """

    packs: tuple[FeaturePack, ...] = ()
    seeds: tuple[int, ...] = SEEDS
    limit: int | None = None
    oracle: bool = False  # add what is tuned on labels, in columns of its own
    watch: Watch = silent  # (done, total, what is under way)
    support: FeaturePack | None = None  # labelled training features, for few-shot methods
    learned: Mapping[str, Learned] = field(default_factory=dict)  # by method, what `cosmic train` left
    tower: str | None = None  # the encoder whose text tower is learned through; the pack's own unless told
    without: tuple[str, ...] = ()  # methods that are left out
    kept: dict[Any, Run] = field(default_factory=dict, repr=False, compare=False)

    @property
    def streams(self) -> tuple[FeaturePack, ...]:
        """The packs that were given, or the embedded stream."""
        return self.packs or (embedded_pack(),)

    @property
    def first(self) -> FeaturePack:
        """The first of the streams, for an experiment that shows one."""
        return self.streams[0]

    @property
    def settings(self) -> dict[str, Any]:
        """What an outcome records of its making."""
        return {
            "packs": [pack.name for pack in self.streams],
            "seeds": list(self.seeds),
            "limit": self.limit,
            "oracle": self.oracle,
        }

    def labelled(self, streams: Sequence[FeaturePack] | None = None) -> tuple[list[FeaturePack], list[str]]:
        """Return the streams with labels, and a sentence for each without: accuracy cannot be told of those."""
        streams = self.streams if streams is None else streams
        kept = [pack for pack in streams if pack.labels is not None]
        missing = [f"{pack.name}: no labels, so no accuracy." for pack in streams if pack.labels is None]
        return kept, missing

    def hindrance(self, spec: str, pack: FeaturePack) -> str:
        """Return why a method cannot run on a pack; empty if it can."""
        name = split_name(spec)[0].name
        if name in self.without:
            return "left out"
        if name in COMPARING and pack.clip.shape[1] == 1:
            return "learns from several views of an image, and the pack has one: cosmic extract --views 64"
        if name == "difftpt" and not drawn_views(pack) and not self._leaves_shots(pack):
            return "needs views that a diffusion model drew: cosmic draw-views, then cosmic extract --views-from"
        try:
            self.prepared(spec, pack)
        except CosmicError as error:
            return str(error).rstrip(".")
        return ""

    def prepared(self, spec: str, pack: FeaturePack, **parameters: Any) -> tuple[Method[Any], FeaturePack]:
        """Return a method ready to run, and the pack with all that it asks for; an error says what is missing."""
        kind, _ = split_name(spec)
        given: dict[str, Any] = {}
        if "support" in kind.needs:
            given["support"] = self._support(pack)
        if "checkpoint" in kind.needs and (learned := self._learned(kind.name, pack)) is not None:
            refuse_own_shots(learned, pack)
            given["checkpoint"] = learned
        if kind.name == "difftpt":
            pack = pack if drawn_views(pack) else embedded_drawn()
            parameters = {"generated": drawn_views(pack)} | parameters
        method = make_method(spec, **parameters, **given)
        if wants_tower(method):
            pack = with_tower(pack, self.tower)
        method.init(pack.task())
        return method, pack

    def _support(self, pack: FeaturePack) -> Support:
        if self.support is not None:
            return self.support.support()
        if self._leaves_shots(pack):
            return embedded_shots()
        raise InputError("few-shot: needs labelled training features, --support PACK.")

    def _learned(self, method: str, pack: FeaturePack) -> Learned | None:
        if method in self.learned:
            return self.learned[method]
        return embedded_lesson(method) if self._leaves_shots(pack) else None

    def _leaves_shots(self, pack: FeaturePack) -> bool:
        """Tell whether a pack is of the first embedded photographs, and the shots are of the others."""
        return not self.packs and len(pack) <= STREAM

    def run(self, spec: str, pack: FeaturePack, seed: int | None = None, aux: str = "given", **parameters: Any) -> Run:
        """Run `name` or `name@preset` over a pack, shuffled by the seed; the first of the seeds unless told."""
        seed = self.seeds[0] if seed is None else seed
        told = tuple(sorted((name, str(value)) for name, value in parameters.items()))
        key = (spec, told, pack.name, pack.clip.shape, pack.aux_model, seed, aux, self.limit)
        if key in self.kept:
            return self.kept[key]
        method, pack = self.prepared(spec, pack, **parameters)
        what = f"{spec}{''.join(f' {name}={value}' for name, value in told)} on {pack.name}, seed {seed}"
        run = score(
            method,
            pack,
            preset=split_name(spec)[1],
            aux=aux,
            seed=seed,
            limit=self.limit,
            calibrate=False,
            watch=lambda step: self.watch(step.done, step.total, what),
        )
        if run.scores.nbytes * (1 + len(run.parts)) <= KEPT:
            self.kept[key] = run
        return run


def drawn_views(pack: FeaturePack) -> int:
    """Return how many of a pack's views, the last ones, a diffusion model drew."""
    return int(pack.made.get("drawn views", {}).get("count", 0))
