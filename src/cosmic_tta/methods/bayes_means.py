"""Bayesian class means: our own method. Every class is a mean in a standardised space, learned from soft self-labels.

`docs/bayes-means.md` has the idea, the derivation and what each constant does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, inf
from typing import ClassVar, NamedTuple, final

import numpy as np

from cosmic_tta.balance import dominance, ramp, sparing, tilt
from cosmic_tta.caution import Caution, Verdicts
from cosmic_tta.core import Method, Prediction, Sample, Task
from cosmic_tta.course import Course
from cosmic_tta.explanation import Explanation, votes
from cosmic_tta.favour import Favour
from cosmic_tta.likelihood import Likelihood, Model
from cosmic_tta.means import BLOCK, IDLE, BayesMeansState, blocks, carry, grow
from cosmic_tta.ops import Array, Ints, as_float32, dots, softmax
from cosmic_tta.parameters import LARGE, param
from cosmic_tta.tally import Space, Tally, heaviest

ANNEALING = (0.0, 0.3, 0.6, 1.0)  # a sweep restarts from zero-shot, then trusts the class means more and more
AGAIN = 0.999  # cosine from which a sample is the one before it, shown again


class Mood(NamedTuple):
    """What the stream looks like, and what follows from it."""

    kappa: float  # share of samples that the recent class mix explains
    ease: float  # how much the bias terms count, from 1 down to 0
    trust: float  # how much the class means count, from 1 down
    doubt: float  # chance that what a class has learned is wrong, from 0 up
    ruled: float  # how much one class dominates, from 0 to 1
    balance: float  # how much a frequent class is kept from ruling the mean, from 0 to 1
    sure: float  # how sure zero-shot is of a sample, in the mean; 0 before the first
    caution: Caution  # how far zero-shot is left alone


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
    remember: float = param(0.5, "share of what departed samples count that stays at each sweep", range=(0, 1))
    first_sweep: int = param(20, "samples before the first sweep", range=(1, LARGE))
    sweep_ratio: float = param(1.25, "growth of the stream from one sweep to the next", range=(1, LARGE))
    variance_prior: float = param(20.0, "samples' worth of shrinkage of each dimension's variance", range=(0, LARGE))
    mean_prior: float = param(5.0, "samples' worth of shrinkage of the running mean", range=(0, LARGE))
    zero_shot_pull: float = param(0.5, "most that overrated classes are held back on a suspicion", range=(0, LARGE))
    frequency_pull: float = param(0.5, "how far a class is helped by being frequent", range=(0, LARGE))
    temporal: bool = param(True, "use the recent class mix when the stream turns out to be correlated")
    proof: float = param(100.0, "samples' worth of doubt that a stream is correlated", range=(0, LARGE))
    gradual: bool = param(True, "a correlated stream is met gradually; else in full from κ = 0.3 or 0.4 on")
    doubt: float = param(0.5, "most doubt of what a class has learned in a correlated stream", range=(0, 0.99))
    lean: float = param(0.5, "how far the class means yield where one class dominates", range=(0, 1))
    apart: float = param(0.2, "class means that differ from zero-shot less often may yield; 0: never", range=(0, 1))
    unsure: float = param(1.5, "how fast a sample counts less, the less sure zero-shot is of it", range=(0, LARGE))
    balanced: bool = param(True, "where one class dominates, trust frequencies more and balance the running mean")

    def _init(self, task: Task) -> BayesMeansState:
        classes, items = task.classes, task.classes * self.items_per_class

        return BayesMeansState(
            task,
            seen=0,
            clip=Space.empty(items, task.dim),
            aux=None if task.aux_dim is None else Space.empty(items, task.aux_dim),
            prior=np.zeros((items, classes), np.float32),
            label=np.zeros((blocks(items), classes, BLOCK), np.float32),
            sure=np.zeros(items, np.float32),
            live=Tally.empty(task),
            frozen=Tally.empty(task),
            reference=Tally.empty(task),
            clip_likelihood=Likelihood.empty(classes, task.dim),
            aux_likelihood=None if task.aux_dim is None else Likelihood.empty(classes, task.aux_dim),
            draft=Tally.empty(task),
            moment0=0.0,
            zero_shot_mass=np.zeros(classes, np.float32),
            prior_mass=np.zeros(classes, np.float32),
            course=Course.start(classes, self.proof),
            verdicts=Verdicts.start(classes, self.apart),
            favour=Favour.empty(classes, aux=task.aux_dim is not None) if self.apart else None,
            next_sweep=self.first_sweep,
            slot=0,
            held=0,
            sweep=IDLE,
            cursor=0,
            relabelled=0,
        )

    def _carry(self, state: BayesMeansState, task: Task, places: Ints) -> BayesMeansState:
        carried = self._init(task)
        if carry(state, carried, places, growing=not self.items_per_class) and carried.seen:
            carried.next_sweep = min(carried.next_sweep, max(carried.seen + 1, self.first_sweep))
        return carried

    def _predict(self, state: BayesMeansState, sample: Sample, *, learn: bool) -> Prediction:
        task, live = state.task, state.live
        raw = (sample.plain,) if sample.aux is None else (sample.plain, sample.aux)
        zero_shot = softmax(np.float32(task.logit_scale) * dots(task.unit_text, sample.clip[:1])[0])  # [K]
        mood = self._mood(state)
        prior = prior0 = np.log(zero_shot + np.float32(1e-30))
        if mood.kappa > 0.1:
            prior = prior + state.course.foreseen(mood.kappa)

        # Zero-shot is the prior, each space's class means a likelihood.
        zero_shot_mass = state.zero_shot_mass + zero_shot
        bias = self._bias(state, zero_shot_mass, live.mass, mood)
        parts, reliability = {"zero_shot": zero_shot}, {}
        features = tuple(space.standard(x) for x, space in zip(raw, state.spaces(), strict=True))
        means, model = np.zeros_like(prior), self._model()
        for name, x, sums in zip(("clip", "aux"), features, live.spaces(), strict=False):
            evidence, reliability[name] = model.evidence(
                x, live.mass, live.square, sums.classes, sums.total + x, live.number + 1
            )
            trusted = np.float32(mood.trust) * evidence
            means += trusted
            parts[name] = softmax(trusted)
        scores = softmax(prior - bias + model.doubted(means, mood.doubt, mood.trust * len(features)))

        explain = self._explain(state, sample, int(scores.argmax()), reliability, bias)
        if learn:
            again = state.held > 0 and float(state.clip.kept[state.slot - 1] @ sample.plain) > AGAIN
            if not again:  # or what was just seen would say it twice
                state.zero_shot_mass = zero_shot_mass
                if self.temporal:
                    state.course.follow(zero_shot, scores, live.mass, self.proof)
                self._judge(state, raw, prior0, prior0 + means / np.float32(mood.caution.need), bias, mood)
            self._keep(state, raw, features, prior, scores, 0.0 if again else float(zero_shot.max()), mood)
            self._sweep(state, mood)
        return Prediction(scores, parts, explain)

    def _mood(self, state: BayesMeansState) -> Mood:
        kappa = state.course.kappa(self.proof) if self.temporal else 0.0
        ruled = dominance(state.live.mass)
        lean = 1 - self.lean * ruled
        ruled *= self.balanced
        free = ramp(1 - (kappa - 0.1) / 0.2)  # of correlation: 1 up to κ = 0.1, 0 from 0.3 on
        kept = state.sure[: state.held]
        sure = float(kept.sum()) / max(int(np.count_nonzero(kept)), 1)
        caution = Caution()
        if state.favour is not None:
            caution = state.verdicts.caution(state.favour, state.zero_shot_mass, free, self.apart, sure)
        lean *= caution.need
        balance = max(free * ruled, caution.uneven)
        if not self.gradual:
            trust = lean * (1 - 0.5 * ramp((kappa - 0.1) / 0.3))
            return Mood(kappa, free, trust, 0.0, ruled, balance, sure, caution)
        level = max(0.0, kappa - 0.1) / 0.9
        trust = lean * (1 - 0.5 * level)
        return Mood(kappa, 1 - level, trust, self.doubt * level, ruled, balance, sure, caution)

    def _judge(
        self,
        state: BayesMeansState,
        raw: tuple[Array, ...],
        zero_shot: Array,
        verdict: Array,
        bias: Array,
        mood: Mood,
    ) -> None:
        """Count what the class means would say if nothing held them back; hear what speaks for a shift."""
        if state.favour is None:
            return
        if mood.caution.uneven or mood.caution.spared < 1:
            unguarded = mood._replace(caution=mood.caution.thrown_away())
            bias = self._bias(state, state.zero_shot_mass, state.live.mass, unguarded)
        state.verdicts.count(verdict - bias, zero_shot)
        state.favour.hear(zero_shot, raw, self._model())

    def _bias(self, state: BayesMeansState, zero_shot_mass: Array, mass: Array, mood: Mood) -> Array:
        """Hold back the classes that zero-shot overrates, help those that are frequent."""
        caution = mood.caution
        # A suspicion holds them back a little, a belief by what it takes to even them out.
        suspected = (1 - caution.shift) * (1 - caution.seeming) * caution.suspicion
        overrated = np.float32(suspected) * np.clip(tilt(zero_shot_mass, 1), -self.zero_shot_pull, self.zero_shot_pull)
        if state.favour is not None:
            overrated = overrated + np.float32(caution.shift) * state.favour.bounded()
        pull = (1 + 0.5 * mood.ruled) * self.frequency_pull
        frequent = (pull + caution.uneven * max(0.0, 1 - pull)) * tilt(mass, 10 - 5 * mood.ruled)
        if self.balanced and mass.any():
            # Or zero-shot's favourites would grow without bound; a class that is half of all may have more.
            most = self.zero_shot_pull + float(mass.max() / mass.sum()) + caution.uneven
            frequent = np.clip(frequent, -most, most)
        return as_float32(mood.ease * (caution.spared * overrated - caution.told * frequent))

    def _counted(self, sure: Array, labels: Array, mood: Mood) -> Array:
        """Return labels [B, K] of samples by how much they teach: less if zero-shot is less sure of them than of most.

        Such a sample may be of no class that we know, and would move the mean of one. In a correlated stream the
        recent mix knows more than zero-shot; in an uneven one rare classes need what they get. A sample that was shown
        again teaches nothing.
        """
        yields = mood.ease * (1 - mood.caution.uneven)
        usual = np.minimum(1, sure / np.float32(max(mood.sure, 1e-9))) ** np.float32(self.unsure)  # [B]
        return labels * as_float32(np.where(sure > 0, 1 - yields * (1 - usual), 0))[:, None]

    def _model(self) -> Model:
        return Model(self.sharpness, self.mean_prior, self.balanced)

    def _keep(
        self,
        state: BayesMeansState,
        raw: tuple[Array, ...],
        features: tuple[Array, ...],
        prior: Array,
        label: Array,
        sure: float,
        mood: Mood,
    ) -> None:
        """Count the sample in and put it into the ring; what it pushes out goes on counting, frozen."""
        if not self.items_per_class:
            grow(state)
        slot = state.slot
        passed = state.sweep != IDLE and slot < state.cursor  # a pass under way has done this slot already
        mass = state.live.mass
        full = state.held == len(state.prior)
        if full:
            old = as_float32(state.label[slot // BLOCK, :, slot % BLOCK])[None]
            weight = sparing(mass, old, mood.balance)
            left = tuple(space.drafted(space.kept[slot])[None] for space in state.spaces())
            counted = self._counted(state.sure[slot : slot + 1], old, mood)
            state.frozen.add_late(counted, left, weight)
            if state.sweep != IDLE and not passed:
                state.draft.add_late(counted, left, weight)
        weight = sparing(mass, label[None], mood.balance)
        for space, x in zip(state.spaces(), raw, strict=True):
            space.keep(slot, x, float(weight[0]))
        state.moment0 += float(weight[0])
        state.held += not full
        state.slot = (slot + 1) % len(state.prior) if self.items_per_class else state.held
        state.prior[slot], state.sure[slot] = prior, sure
        state.label[slot // BLOCK, :, slot % BLOCK] = label
        state.prior_mass = state.prior_mass + softmax(prior)
        counted = self._counted(state.sure[slot : slot + 1], label[None], mood)
        state.live.add(counted, tuple(x[None] for x in features), weight)
        if passed:
            drafted = tuple(space.drafted(x)[None] for x, space in zip(raw, state.spaces(), strict=True))
            state.draft.add_late(counted, drafted, weight)

    def _sweep(self, state: BayesMeansState, mood: Mood) -> None:
        """Go on with the sweep under way, or begin one when it is time: so many rows, then enough for this step."""
        number = state.seen + 1
        if state.sweep == IDLE and number >= state.next_sweep:
            state.next_sweep = ceil(self.sweep_ratio * number)
            state.sweep, state.cursor = 0, 0
            state.frozen.fade(self.remember)
            state.draft.become(state.frozen)
            if state.held == number:  # what left the ring can't be standardised anew
                for space in state.spaces():
                    space.fit(number, state.moment0, self.variance_prior)
        kept = state.held
        budget = self.rows_per_step or inf
        state.relabelled = 0
        while state.sweep != IDLE and budget > 0:
            end = int(min(state.cursor + budget, kept))
            budget -= end - state.cursor
            state.relabelled += end - state.cursor
            self._relabel(state, slice(state.cursor, end), mood)
            state.cursor = end
            if end == kept:
                self._turn(state)

    def _relabel(self, state: BayesMeansState, rows: slice, mood: Mood) -> None:
        """Label kept samples by the sweep's last pass, and count them into its next."""
        trust = ANNEALING[state.sweep] * mood.trust
        reference = state.reference
        mass = reference.mass if trust else state.prior_mass
        score = state.prior[rows] - self._bias(state, state.zero_shot_mass, mass, mood)
        features = tuple(space.drafted(space.kept[rows]) for space in state.spaces())
        if trust:
            means = np.zeros_like(score)
            for x, sums, likelihood in zip(features, reference.spaces(), state.likelihoods(), strict=True):
                likelihood.add(x, sums.classes, reference.mass, trust, means)
            score += self._model().doubted(means, mood.doubt, trust * len(features))
        label = softmax(score)
        counted = self._counted(state.sure[rows], label, mood)
        state.draft.add(counted, features, sparing(mass, label, mood.balance))
        if state.sweep == IDLE - 1:
            slots = np.arange(rows.start, rows.stop)
            state.label[slots // BLOCK, :, slots % BLOCK] = label

    def _turn(self, state: BayesMeansState) -> None:
        """End a pass: its draft becomes the next one's reference, or, after the last, what answers."""
        state.draft.settle()
        state.sweep += 1
        state.cursor = 0
        if state.sweep == IDLE:
            state.live, state.draft = state.draft, state.live  # the next sweep drafts anew
            for space in state.spaces():
                space.adopt()
            return
        state.reference, state.draft = state.draft, state.reference
        state.draft.become(state.frozen)
        model, reference = self._model(), state.reference
        for likelihood, sums in zip(state.likelihoods(), reference.spaces(), strict=True):
            likelihood.become(model.likelihood(reference, sums.classes, sums.total, reference.number))

    def _explain(
        self, state: BayesMeansState, sample: Sample, answer: int, reliability: dict[str, float], bias: Array
    ) -> Callable[[], Explanation]:
        # The state goes on changing: what the explanation needs of it is copied now.
        names, kept = state.task.class_names, state.held
        weight = state.label[: blocks(kept), answer].ravel()[:kept] * (state.sure[:kept] > 0)
        slots = heaviest(weight, 8)
        newest = state.seen - 1 - (state.slot - 1 - slots) % max(len(state.prior), 1)
        near = weight[slots] * (state.clip.kept[slots] @ sample.plain)
        mass = state.live.mass.copy()
        return lambda: Explanation(
            votes={"clip": votes(names[answer], newest, near)},
            reliability=reliability,
            class_mass=dict(zip(names, mass.tolist(), strict=True)),
            bias=dict(zip(names, bias.tolist(), strict=True)),
        )
