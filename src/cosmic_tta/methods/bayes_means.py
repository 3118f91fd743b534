"""Bayesian class means: our own method. Every class is a mean in a standardised space, learned from soft self-labels.

`docs/bayes-means.md` has the idea, the derivation and what each constant does.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from math import ceil, inf
from typing import ClassVar, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from cosmic_tta.core import Method, Prediction, Sample, State, Task
from cosmic_tta.explanation import Explanation, votes
from cosmic_tta.ops import Array, as_float32, softmax, unit
from cosmic_tta.parameters import LARGE, param

ANNEALING = (0.0, 0.3, 0.6, 1.0)  # a sweep restarts from zero-shot, then trusts the class means more and more
IDLE = len(ANNEALING)


@dataclass
class Space:
    """One feature space: its kept samples as they came, and how a feature is standardised in it."""

    kept: Array  # [M, D]
    moment: NDArray[np.float64]  # [D] sum of x over all samples
    moment2: NDArray[np.float64]  # [D] sum of x²
    centre: Array  # [D] in use
    scale: Array  # [D]
    draft_centre: Array  # [D] of the sweep under way; between sweeps the one in use
    draft_scale: Array  # [D]


@dataclass
class Sums:
    """What standardised samples add up to in one space."""

    classes: Array  # [K, D] sum of z_k·x
    total: Array  # [D] sum of x


@dataclass
class Tally:
    """What softly labelled samples add up to."""

    mass: Array  # [K] sum of z_k
    square: Array  # [K] sum of z_k²
    number: float
    clip: Sums
    aux: Sums | None

    @classmethod
    def empty(cls, task: Task) -> Tally:
        """Make the tally of no samples."""

        def sums(dim: int) -> Sums:
            return Sums(np.zeros((task.classes, dim), np.float32), np.zeros(dim, np.float32))

        nothing = np.zeros((2, task.classes), np.float32)
        return cls(nothing[0], nothing[1], 0.0, sums(task.dim), None if task.aux_dim is None else sums(task.aux_dim))

    def add(self, labels: Array, features: tuple[Array, ...]) -> None:
        """Count samples in: soft labels [B, K], standardised features [B, D] of each space."""
        self.mass += labels.sum(axis=0)
        self.square += (labels * labels).sum(axis=0)
        self.number += len(labels)
        for sums, rows in zip(self.spaces(), features, strict=True):
            sums.classes += labels.T @ rows
            sums.total += rows.sum(axis=0)

    def spaces(self) -> tuple[Sums, ...]:
        """The sums of the spaces that there are."""
        return (self.clip,) if self.aux is None else (self.clip, self.aux)


@dataclass
class BayesMeansState(State):
    """The kept samples in a ring, the tally that answers, and what a sweep is drafting."""

    clip: Space
    aux: Space | None
    prior: Array  # [M, K] log-probability of each kept sample before any class mean spoke
    label: Array  # [M, K] its soft self-label z
    live: Tally  # of all samples
    frozen: Tally  # of those that left the ring
    reference: Tally  # of a sweep's last whole pass
    draft: Tally  # of a sweep's pass under way
    zero_shot_mass: Array  # [K] sum of zero-shot probabilities
    prior_mass: Array  # [K] sum of exp(prior)
    recent: Array  # [K] class mix of the last few samples
    same: float  # evidence that a sample follows the recent mix ...
    trials: float  # ... out of so many samples
    next_sweep: int
    sweep: int  # the pass under way; IDLE between sweeps
    cursor: int  # rows of the ring that this pass has done

    def spaces(self) -> tuple[Space, ...]:
        """The spaces that there are."""
        return (self.clip,) if self.aux is None else (self.clip, self.aux)


class Mood(NamedTuple):
    """How correlated the stream looks, and what follows from it."""

    kappa: float  # share of samples explained by the recent class mix
    ease: float  # how much the bias terms count, from 1 down to 0
    trust: float  # how much the class means count, from 1 down to a half


@final
@dataclass(frozen=True)
class BayesMeans(Method[BayesMeansState]):
    """Class means in standardised spaces, from soft self-labels: calibrated, label-free, one setting for all data.

    In every feature space a class is a mean with a shared spread; a class without samples is a *novel class* with
    the right likelihood. Spaces multiply, with zero-shot as the prior; a useless space turns itself off.
    Now and then a sweep labels the kept samples anew, from zero-shot on, a few of them in each step.
    """

    name: ClassVar[str] = "bayes_means"

    sharpness: float = param(10.0, "effective dimensions of a space: how sharply a class mean speaks", range=(0, LARGE))
    items_per_class: int = param(16, "kept samples a class, the oldest leaves first; 0 keeps all", range=(0, LARGE))
    rows_per_step: int = param(16, "kept samples that a step labels anew; 0: all at once", range=(0, LARGE))
    first_sweep: int = param(20, "samples before the first sweep", range=(1, LARGE))
    sweep_ratio: float = param(1.25, "growth of the stream from one sweep to the next", range=(1, LARGE))
    variance_prior: float = param(20.0, "samples' worth of shrinkage of each dimension's variance", range=(0, LARGE))
    mean_prior: float = param(10.0, "samples' worth of shrinkage of the running mean", range=(0, LARGE))
    zero_shot_pull: float = param(0.5, "most that a class which zero-shot overrates is held back", range=(0, LARGE))
    frequency_pull: float = param(0.5, "how far a class is helped by being frequent", range=(0, LARGE))
    temporal: bool = param(True, "use the recent class mix when the stream turns out to be correlated")

    def _init(self, task: Task) -> BayesMeansState:
        classes, items = task.classes, task.classes * self.items_per_class

        def space(dim: int) -> Space:
            plain = (np.zeros(dim, np.float32), np.ones(dim, np.float32))
            kept = np.zeros((items, dim), np.float32)
            return Space(kept, np.zeros(dim), np.zeros(dim), *deepcopy(plain), *plain)

        return BayesMeansState(
            task,
            seen=0,
            clip=space(task.dim),
            aux=None if task.aux_dim is None else space(task.aux_dim),
            prior=np.zeros((items, classes), np.float32),
            label=np.zeros((items, classes), np.float32),
            live=Tally.empty(task),
            frozen=Tally.empty(task),
            reference=Tally.empty(task),
            draft=Tally.empty(task),
            zero_shot_mass=np.zeros(classes, np.float32),
            prior_mass=np.zeros(classes, np.float32),
            recent=np.full(classes, 1 / classes, np.float32),
            same=0.0,
            trials=5.0,
            next_sweep=self.first_sweep,
            sweep=IDLE,
            cursor=0,
        )

    def _predict(self, state: BayesMeansState, sample: Sample, *, learn: bool) -> Prediction:
        task, live = state.task, state.live
        raw = (sample.plain,) if sample.aux is None else (sample.plain, sample.aux)
        zero_shot = softmax(np.float32(task.logit_scale) * (task.unit_text @ sample.plain))  # [K]
        mood = self._mood(state)
        prior = np.log(zero_shot + np.float32(1e-30))
        if mood.kappa > 0.1:
            share = min(0.98, mood.kappa)
            prior = prior + np.log(np.float32(task.classes * share) * state.recent + np.float32(1 - share))

        # Zero-shot is the prior, each space's class means a likelihood.
        zero_shot_mass = state.zero_shot_mass + zero_shot
        bias = self._bias(zero_shot_mass, live.mass, mood)
        score = prior - bias
        parts, reliability = {"zero_shot": zero_shot}, {}
        features = tuple(
            standardise(x, space.centre, space.scale) for x, space in zip(raw, state.spaces(), strict=True)
        )
        for name, x, sums in zip(("clip", "aux"), features, live.spaces(), strict=False):
            total = sums.total + x
            evidence, rho = self._evidence(x[None], live, sums.classes, total, live.number + 1, mood.trust)
            score = score + evidence[0]
            parts[name], reliability[name] = softmax(evidence[0]), rho
        scores = softmax(score)

        explain = self._explain(state, sample, int(scores.argmax()), reliability, bias)
        if learn:
            state.zero_shot_mass = zero_shot_mass
            self._follow(state, zero_shot, scores, mood)
            self._keep(state, raw, features, prior, scores)
            self._sweep(state, mood)
        return Prediction(scores, parts, explain)

    def _mood(self, state: BayesMeansState) -> Mood:
        kappa = state.same / state.trials if self.temporal else 0.0
        return Mood(kappa, _ramp(1 - (kappa - 0.1) / 0.2), 1 - 0.5 * _ramp((kappa - 0.1) / 0.3))

    def _bias(self, zero_shot_mass: Array, mass: Array, mood: Mood) -> Array:
        """Hold back the classes that zero-shot overrates, help those that are frequent."""
        overrated = np.clip(_tilt(zero_shot_mass, 1), -self.zero_shot_pull, self.zero_shot_pull)
        return as_float32(mood.ease * (overrated - self.frequency_pull * _tilt(mass, 10)))

    def _evidence(
        self, rows: Array, tally: Tally, sums: Array, total: Array, number: float, trust: float
    ) -> tuple[Array, float]:
        """Return the log-likelihood of standardised rows [B, D] under each class [B, K], and the reliability ρ.

        With the running mean g taken away and c_k the class sums in what is left, a class with much mass is a
        narrow Gaussian around its mean, one without any a wide one around nothing: a novel class.
        """
        g = total / np.float32(number + self.mean_prior)  # [D]
        gg = float(g @ g)
        rest = np.float32(1 - gg)
        mass = tally.mass
        towards = unit(rows - g)  # [B, D]
        sg = sums @ g  # [K]
        cosine = (towards @ sums.T - np.outer(towards @ g, mass)) / np.sqrt(rest)  # [B, K] x·c_k
        length = (np.einsum("kd,kd->k", sums, sums) - 2 * mass * sg + mass * mass * np.float32(gg)) / rest  # [K] |c_k|²
        within = float((length - tally.square).sum()) + 6
        pairs = float((mass * mass - tally.square).sum()) + 20
        rho = np.float32(min(max(1.1 * within / pairs, 0.01), 0.9))
        precision = mass * rho + 1 - rho
        gain = rho / precision
        spread = 1 - rho + rho * (1 - rho) / precision
        distance = (1 - 2 * gain * cosine + gain * gain * length) / spread
        return as_float32(-0.5 * self.sharpness * trust * (np.log(spread) + distance)), float(rho)

    def _follow(self, state: BayesMeansState, zero_shot: Array, scores: Array, mood: Mood) -> None:
        """Judge whether the recent class mix or the overall one foresaw this sample, then move the mix."""
        if not self.temporal:
            return
        share = max(mood.kappa, 0.05)
        mass = state.live.mass + 10
        recent = share * float(state.recent @ zero_shot)
        overall = (1 - share) * float(mass @ zero_shot) / float(mass.sum())
        state.same += recent / (recent + overall)
        state.trials += 1
        state.recent = np.float32(0.8) * state.recent + np.float32(0.2) * scores

    def _keep(
        self, state: BayesMeansState, raw: tuple[Array, ...], features: tuple[Array, ...], prior: Array, label: Array
    ) -> None:
        """Count the sample in and put it into the ring; what it pushes out goes on counting, frozen."""
        if not self.items_per_class:
            _grow(state)
        slot = state.seen % len(state.prior)
        ahead = state.sweep == IDLE or slot >= state.cursor  # a pass under way will still come to this slot
        if state.seen >= len(state.prior):
            left = tuple(
                standardise(space.kept[slot], space.draft_centre, space.draft_scale)[None] for space in state.spaces()
            )
            state.frozen.add(state.label[slot][None], left)
            if ahead and state.sweep != IDLE:
                state.draft.add(state.label[slot][None], left)
        for space, x in zip(state.spaces(), raw, strict=True):
            space.kept[slot] = x
            space.moment += x
            space.moment2 += x.astype(np.float64) ** 2
        state.prior[slot], state.label[slot] = prior, label
        state.prior_mass = state.prior_mass + softmax(prior)
        state.live.add(label[None], tuple(x[None] for x in features))
        if not ahead:
            drafted = (standardise(x, s.draft_centre, s.draft_scale) for x, s in zip(raw, state.spaces(), strict=True))
            state.draft.add(label[None], tuple(x[None] for x in drafted))

    def _sweep(self, state: BayesMeansState, mood: Mood) -> None:
        """Go on with the sweep under way, or begin one when it is time: so many rows, then enough for this step."""
        number = state.seen + 1
        if state.sweep == IDLE and number >= state.next_sweep:
            state.next_sweep = ceil(self.sweep_ratio * number)
            state.sweep, state.cursor = 0, 0
            state.draft = deepcopy(state.frozen)
            if not state.frozen.number:  # what left the ring can't be standardised anew
                self._fit(state, number)
        kept = min(number, len(state.prior))
        budget = self.rows_per_step or inf
        while state.sweep != IDLE and budget > 0:
            end = int(min(state.cursor + budget, kept))
            budget -= end - state.cursor
            self._relabel(state, slice(state.cursor, end), mood)
            state.cursor = end
            if end == kept:
                self._turn(state)

    def _fit(self, state: BayesMeansState, number: int) -> None:
        """Standardise by the mean and the shrunken variance of each dimension."""
        for space in state.spaces():
            mean = space.moment / number
            variance = np.maximum(space.moment2 / number - mean * mean, 0)
            average = variance.mean()
            variance = (number * variance + self.variance_prior * average) / (number + self.variance_prior)
            space.draft_centre = as_float32(mean)
            space.draft_scale = as_float32(np.sqrt(average / variance)) if average > 0 else np.ones_like(space.scale)

    def _relabel(self, state: BayesMeansState, rows: slice, mood: Mood) -> None:
        """Label kept samples by the sweep's last pass, and count them into its next."""
        trust = ANNEALING[state.sweep] * mood.trust
        reference = state.reference
        mass = reference.mass if trust else state.prior_mass
        score = state.prior[rows] - self._bias(state.zero_shot_mass, mass, mood)
        features = tuple(standardise(s.kept[rows], s.draft_centre, s.draft_scale) for s in state.spaces())
        if trust:
            for x, sums in zip(features, reference.spaces(), strict=True):
                score += self._evidence(x, reference, sums.classes, sums.total, reference.number, trust)[0]
        label = softmax(score)
        state.draft.add(label, features)
        if state.sweep == IDLE - 1:
            state.label[rows] = label

    def _turn(self, state: BayesMeansState) -> None:
        """End a pass: its draft becomes the next one's reference, or, after the last, what answers."""
        state.sweep += 1
        state.cursor = 0
        if state.sweep == IDLE:
            state.live = state.draft
            for space in state.spaces():
                space.centre, space.scale = space.draft_centre, space.draft_scale
        else:
            state.reference = state.draft
        state.draft = deepcopy(state.frozen)

    def _explain(
        self, state: BayesMeansState, sample: Sample, answer: int, reliability: dict[str, float], bias: Array
    ) -> Callable[[], Explanation]:
        # The state goes on changing: what the explanation needs of it is copied now.
        names, kept = state.task.class_names, min(state.seen, len(state.prior))
        weight = state.label[:kept, answer]
        slots = np.argsort(-weight, kind="stable")[:8]
        newest = slots + (state.seen - 1 - slots) // max(len(state.prior), 1) * len(state.prior)
        near = weight[slots] * (state.clip.kept[slots] @ sample.plain)
        mass = state.live.mass.copy()
        return lambda: Explanation(
            votes={"clip": votes(names[answer], newest, near)},
            reliability=reliability,
            class_mass=dict(zip(names, mass.tolist(), strict=True)),
            bias=dict(zip(names, bias.tolist(), strict=True)),
        )


def standardise(rows: Array, centre: Array, scale: Array) -> Array:
    """Centre and scale each dimension, then unit length; before the first sweep nothing changes."""
    return unit((rows - centre) * scale)


def _ramp(value: float) -> float:
    return min(max(value, 0.0), 1.0)


def _tilt(mass: Array, prior: float) -> Array:
    """By how much, in log, each class has more than its even share."""
    return as_float32(np.log(len(mass) * (mass + prior) / (mass.sum() + prior * len(mass))))


def _grow(state: BayesMeansState) -> None:
    """Make room for one sample more where all are kept: twice as much as there was."""
    if state.seen == len(state.prior):
        room = max(64, state.seen)
        for space in state.spaces():
            space.kept = np.concatenate([space.kept, np.zeros((room, space.kept.shape[1]), np.float32)])
        more = np.zeros((room, state.prior.shape[1]), np.float32)
        state.prior, state.label = np.concatenate([state.prior, more]), np.concatenate([state.label, more])
