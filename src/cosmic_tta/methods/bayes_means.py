"""Bayesian class means: our own method. Every class is a mean in a standardised space, learned from soft self-labels.

`docs/bayes-means.md` has the idea, the derivation and what each constant does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, exp, inf, log
from typing import ClassVar, NamedTuple, final

import numpy as np

from cosmic_tta.balance import HEARING, Witness, dominance, ramp, tilt, unevenness
from cosmic_tta.core import Method, Prediction, Sample, Task
from cosmic_tta.explanation import Explanation, votes
from cosmic_tta.likelihood import Likelihood, Model
from cosmic_tta.means import BLOCK, IDLE, BayesMeansState, blocks, carry, grow
from cosmic_tta.ops import Array, Ints, as_float32, dots, softmax
from cosmic_tta.parameters import LARGE, param
from cosmic_tta.tally import Space, Tally, heaviest

ANNEALING = (0.0, 0.3, 0.6, 1.0)  # a sweep restarts from zero-shot, then trusts the class means more and more
PATIENCE = 2.0  # samples a class before anything is made of what the class means do to zero-shot's answers
ENOUGH = 3.0  # samples a class before their numbers say anything, where auxiliary features do not
LEAST_NEED = 0.02  # of their trust, that the class means always keep
AGAIN = 0.999  # cosine from which a sample is the one before it, shown again
EVENED = 0.82  # class means under a shift make zero-shot's classes more even than this; in an uneven stream they do not


class Mood(NamedTuple):
    """What the stream looks like, and what follows from it."""

    kappa: float  # share of samples that the recent class mix explains
    ease: float  # how much the bias terms count, from 1 down to 0
    trust: float  # how much the class means count, from 1 down
    doubt: float  # chance that what a class has learned is wrong, from 0 up
    ruled: float  # how much one class dominates, from 0 to 1
    balance: float  # how much a frequent class is kept from ruling the mean, from 0 to 1
    uneven: float  # how uneven the classes of the stream are, from 0 to 1
    need: float  # how much the class means are needed there, from 1 down
    sure: float  # how sure zero-shot is of a sample, in the mean; 0 before the first


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
    zero_shot_pull: float = param(0.5, "most that a class which zero-shot overrates is held back", range=(0, LARGE))
    frequency_pull: float = param(0.5, "how far a class is helped by being frequent", range=(0, LARGE))
    temporal: bool = param(True, "use the recent class mix when the stream turns out to be correlated")
    proof: float = param(100.0, "samples' worth of doubt that a stream is correlated", range=(0, LARGE))
    gradual: bool = param(True, "a correlated stream is met gradually; else in full from κ = 0.3 or 0.4 on")
    doubt: float = param(0.5, "most doubt of what a class has learned in a correlated stream", range=(0, 0.99))
    lean: float = param(0.5, "how far the class means yield where one class dominates", range=(0, 1))
    apart: float = param(0.2, "uneven classes: means that differ from zero-shot less often yield", range=(0, 1))
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
            recent=np.full(classes, 1 / classes, np.float32),
            same=0.0,
            trials=max(5.0, classes / 4) if self.proof else 5.0,
            odds=0.0,
            verdict_mass=np.zeros(classes, np.float32),
            differed=PATIENCE * classes * self.apart,
            judged=PATIENCE * classes,
            witness=None if task.aux_dim is None else Witness(0.0, 0.0),
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
            share = min(0.98, mood.kappa)
            prior = prior + np.log(np.float32(task.classes * share) * state.recent + np.float32(1 - share))

        # Zero-shot is the prior, each space's class means a likelihood.
        zero_shot_mass = state.zero_shot_mass + zero_shot
        bias = self._bias(zero_shot_mass, live.mass, mood)
        parts, reliability = {"zero_shot": zero_shot}, {}
        features = tuple(space.standard(x) for x, space in zip(raw, state.spaces(), strict=True))
        means, said, model = np.zeros_like(prior), None, self._model()
        for name, x, sums in zip(("clip", "aux"), features, live.spaces(), strict=False):
            evidence, reliability[name] = model.evidence(x, live, sums.classes, sums.total + x, live.number + 1)
            said, trusted = evidence, np.float32(mood.trust) * evidence
            means += trusted
            parts[name] = softmax(trusted)
        scores = softmax(prior - bias + self._doubted(means, mood.trust, len(features), mood))

        explain = self._explain(state, sample, int(scores.argmax()), reliability, bias)
        if learn:
            again = state.held > 0 and float(state.clip.kept[state.slot - 1] @ sample.plain) > AGAIN
            if not again:  # or what was just seen would say it twice
                state.zero_shot_mass = zero_shot_mass
                self._follow(state, zero_shot, scores)
                self._judge(state, prior0, prior0 + means / np.float32(mood.need), bias, said, mood)
            self._keep(state, raw, features, prior, scores, 0.0 if again else float(zero_shot.max()), mood)
            self._sweep(state, mood)
        return Prediction(scores, parts, explain)

    def _mood(self, state: BayesMeansState) -> Mood:
        kappa = state.same / state.trials if self.temporal else 0.0
        if self.proof:
            kappa /= 1 + exp(-state.odds)
        ruled = dominance(state.live.mass)
        lean = 1 - self.lean * ruled
        ruled *= self.balanced
        free = ramp(1 - (kappa - 0.1) / 0.2)  # of correlation: 1 up to κ = 0.1, 0 from 0.3 on
        uneven, heard, need = self._needed(state, free)
        lean *= need
        balance = max(free * ruled, heard * uneven)
        kept = state.sure[: state.held]
        sure = float(kept.sum()) / max(int(np.count_nonzero(kept)), 1)
        if not self.gradual:
            trust = lean * (1 - 0.5 * ramp((kappa - 0.1) / 0.3))
            return Mood(kappa, free, trust, 0.0, ruled, balance, uneven, need, sure)
        level = max(0.0, kappa - 0.1) / 0.9
        trust = lean * (1 - 0.5 * level)
        return Mood(kappa, 1 - level, trust, self.doubt * level, ruled, balance, uneven, need, sure)

    def _needed(self, state: BayesMeansState, free: float) -> tuple[float, float, float]:
        """Return how uneven the classes are, how far auxiliary features know that, and how much means are needed there.

        A shift makes zero-shot's classes uneven too. Auxiliary features tell the two apart. Where they say nothing:
        class means that see through a shift make its classes more even again; where they do not, the stream is uneven.
        There a rare class learns from the errors of frequent ones. Means that seldom differ from zero-shot have little
        to give, and what they differ in is mostly such an error: the more so, the less auxiliary features know.
        """
        if not self.apart:
            return 0.0, 0.0, 1.0
        classes, witness = state.task.classes, state.witness
        chance = (classes - 1) / (2 * state.judged)  # by which a sample is more uneven than what it is of
        missing, before = unevenness(state.verdict_mass) - chance, unevenness(state.zero_shot_mass) - chance
        enough = ramp(state.seen / (ENOUGH * classes) - 1)  # fewer fall unevenly by chance
        real, heard, known = enough * ramp((missing / max(before, 1e-9) - EVENED) / 0.1), 0.0, 0.5
        if witness is not None:
            heard = witness.weight(state.seen)
            known += heard * (witness.known(state.seen, classes) - known)
            real += heard * (1 - witness.shift() - real)
            missing += heard * max(0.0, before - missing)
        uneven = free * ramp(10 * missing - 1) * real
        share = min(1.0, state.differed / (state.judged * self.apart))
        return uneven, heard, max(LEAST_NEED, share ** (2 / known * uneven))

    def _judge(
        self, state: BayesMeansState, zero_shot: Array, verdict: Array, bias: Array, said: Array | None, mood: Mood
    ) -> None:
        """Count what the class means would say if nothing held them back; hear what the last space's means said."""
        if not self.apart:
            return
        masses = state.zero_shot_mass, state.live.mass
        held_back = self._bias(*masses, mood._replace(uneven=0.0, need=1.0)) if mood.uneven else bias
        verdict = verdict - held_back
        state.verdict_mass = state.verdict_mass + softmax(verdict)
        state.differed += float(verdict.argmax() != zero_shot.argmax())
        state.judged += 1
        if state.witness is not None and said is not None and state.seen >= HEARING:
            helped = self._bias(*masses, mood._replace(uneven=1.0, need=1.0))
            state.witness.hear(zero_shot, held_back, helped, said)

    def _bias(self, zero_shot_mass: Array, mass: Array, mood: Mood) -> Array:
        """Hold back the classes that zero-shot overrates, help those that are frequent."""
        overrated = np.clip(tilt(zero_shot_mass, 1), -self.zero_shot_pull, self.zero_shot_pull)
        pull = (1 + 0.5 * mood.ruled) * self.frequency_pull
        frequent = (pull + mood.uneven * max(0.0, 1 - pull)) * tilt(mass, 10 - 5 * mood.ruled)
        if self.balanced and mass.any():
            # Or zero-shot's favourites would grow without bound; a class that is half of all may have more.
            most = self.zero_shot_pull + float(mass.max() / mass.sum()) + mood.uneven
            frequent = np.clip(frequent, -most, most)
        spared = 1 - mood.uneven * (1 - mood.need)
        return as_float32(mood.ease * spared * ((1 - mood.uneven) * overrated - frequent))

    def _weights(self, mass: Array, labels: Array, mood: Mood) -> Array:
        """Return how much samples [B, K] weigh in the running mean: less, the more of their class there are."""
        if not mood.balance:
            return np.ones(len(labels), np.float32)
        share = np.minimum(1, mass.mean() / np.maximum(mass, np.float32(1e-9)))  # [K]
        return as_float32(1 - mood.balance * (1 - labels @ share))

    def _counted(self, sure: Array, labels: Array, mood: Mood) -> Array:
        """Return labels [B, K] of samples by how much they teach: less if zero-shot is less sure of them than of most.

        Such a sample may be of no class that we know, and would move the mean of one. In a correlated stream the
        recent mix knows more than zero-shot; in an uneven one rare classes need what they get. A sample that was shown
        again teaches nothing.
        """
        yields = mood.ease * (1 - mood.uneven)
        usual = np.minimum(1, sure / np.float32(max(mood.sure, 1e-9))) ** np.float32(self.unsure)  # [B]
        return labels * as_float32(np.where(sure > 0, 1 - yields * (1 - usual), 0))[:, None]

    def _model(self) -> Model:
        return Model(self.sharpness, self.mean_prior, self.balanced)

    def _doubted(self, evidence: Array, trust: float, spaces: int, mood: Mood) -> Array:
        """Mix the evidence of all spaces with that of a novel class: whoever doubts a class forgets it."""
        if not mood.doubt:
            return evidence
        novel = -0.5 * self.sharpness * trust * spaces
        return as_float32(np.logaddexp(log(1 - mood.doubt) + evidence, log(mood.doubt) + novel))

    def _follow(self, state: BayesMeansState, zero_shot: Array, scores: Array) -> None:
        """Judge whether the recent class mix or the overall one foresaw this sample, then move the mix."""
        if not self.temporal:
            return
        classes, mass = len(zero_shot), state.live.mass
        share = max(state.same / state.trials, 0.05)
        recent = share * float(state.recent @ zero_shot)
        overall = (1 - share) * float((mass + 10) @ zero_shot) / (float(mass.sum()) + 10 * classes)
        if self.proof:
            frequencies = float((mass + self.proof / classes) @ zero_shot) / (float(mass.sum()) + self.proof)
            odds = state.odds + log((recent + overall) / frequencies)
            state.odds = min(max(odds, -30.0), 30.0)  # bounded, so that a stream which changes is noticed in time
        state.same += recent / (recent + overall)
        state.trials += 1
        state.recent = np.float32(0.8) * state.recent + np.float32(0.2) * scores

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
            weight = self._weights(mass, old, mood)
            left = tuple(space.drafted(space.kept[slot])[None] for space in state.spaces())
            counted = self._counted(state.sure[slot : slot + 1], old, mood)
            state.frozen.add_late(counted, left, weight)
            if state.sweep != IDLE and not passed:
                state.draft.add_late(counted, left, weight)
        weight = self._weights(mass, label[None], mood)
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
        score = state.prior[rows] - self._bias(state.zero_shot_mass, mass, mood)
        features = tuple(space.drafted(space.kept[rows]) for space in state.spaces())
        if trust:
            means = np.zeros_like(score)
            for x, sums, likelihood in zip(features, reference.spaces(), state.likelihoods(), strict=True):
                likelihood.add(x, sums.classes, reference.mass, trust, means)
            score += self._doubted(means, trust, len(features), mood)
        label = softmax(score)
        counted = self._counted(state.sure[rows], label, mood)
        state.draft.add(counted, features, self._weights(mass, label, mood))
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
