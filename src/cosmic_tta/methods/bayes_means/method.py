"""BayesMeans, a method of this project: class means in standardised spaces, learned from soft self-labels.

`docs/methods/bayes_means.md` has the idea, the derivation and what each constant does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import ceil, inf
from typing import ClassVar, NamedTuple, final

import numpy as np

from cosmic_tta.core.arrays import Array, Ints, as_float32, dots, softmax
from cosmic_tta.core.explanation import Explanation
from cosmic_tta.core.memory import FeatureMemory
from cosmic_tta.core.method import Method
from cosmic_tta.core.parameters import LARGE, param
from cosmic_tta.core.types import Prediction, Sample, Task
from cosmic_tta.methods.bayes_means.explain import explain
from cosmic_tta.methods.bayes_means.policy import AdaptationPolicy, DisagreementRate
from cosmic_tta.methods.bayes_means.state import BLOCK, IDLE, BayesMeansState, blocks, grow, remap_classes
from cosmic_tta.methods.bayes_means.temporal_correlation import TemporalCorrelation
from cosmic_tta.methods.bayes_means.zero_shot_bias import ZeroShotBias
from cosmic_tta.methods.components.class_balance import clip01, dominance, inverse_frequency_weights, log_share_excess
from cosmic_tta.methods.components.class_statistics import ClassStatistics, top_indices
from cosmic_tta.methods.components.gaussian_classes import GaussianClassModel, LinearLogLikelihood
from cosmic_tta.methods.components.standardize import Standardizer
from cosmic_tta.methods.registry import register_method

ANNEALING = (0.0, 0.3, 0.6, 1.0)  # a sweep restarts from zero-shot, then trusts the class means more and more
AGAIN = 0.999  # cosine from which a sample is the one before it, shown again


class StepWeights(NamedTuple):
    """What the stream looks like, and what follows from it."""

    kappa: float  # share of samples that the recent class mix explains
    ease: float  # how much the bias terms count, from 1 down to 0
    trust: float  # how much the class means count, from 1 down
    doubt: float  # chance that what a class has learned is wrong, from 0 up
    ruled: float  # how much one class dominates, from 0 to 1
    balance: float  # how much a frequent class is kept from ruling the mean, from 0 to 1
    sure: float  # how sure zero-shot is of a sample, in the mean; 0 before the first
    caution: AdaptationPolicy  # how far zero-shot is left alone


@register_method
@final
@dataclass(frozen=True)
class BayesMeans(Method[BayesMeansState]):
    """Class means in standardised spaces, from soft self-labels: calibrated, label-free, one setting for all data.

    In each feature space a class has a mean; all classes share a spread. The likelihoods of the spaces are multiplied,
    with zero-shot as the prior. A sweep relabels the kept samples from time to time, a few samples per step.

    Example:
        >>> from cosmic_tta.features.synthetic import superclass_pack
        >>> pack = superclass_pack(0, images=40, dim=16, aux_dim=8)
        >>> state = BayesMeans().init(pack.task())
        >>> BayesMeans().step(state, pack.sample(0)).scores.shape
        (20,)
    """

    name: ClassVar[str] = "bayes_means"

    sharpness: float = param(10.0, "effective dimensions of a space: how sharply a class mean speaks", range=(0, LARGE))
    items_per_class: int = param(
        16, "kept samples per class, the oldest leaves first; 0 keeps all", range=(0, LARGE), sizes_state=True
    )
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
            clip=Standardizer.empty(items, task.dim),
            aux=None if task.aux_dim is None else Standardizer.empty(items, task.aux_dim),
            prior=np.zeros((items, classes), np.float32),
            label=np.zeros((blocks(items), classes, BLOCK), np.float32),
            sure=np.zeros(items, np.float32),
            live=ClassStatistics.empty(task),
            frozen=ClassStatistics.empty(task),
            reference=ClassStatistics.empty(task),
            clip_likelihood=LinearLogLikelihood.empty(classes, task.dim),
            aux_likelihood=None if task.aux_dim is None else LinearLogLikelihood.empty(classes, task.aux_dim),
            draft=ClassStatistics.empty(task),
            moment0=0.0,
            zero_shot_mass=np.zeros(classes, np.float32),
            prior_mass=np.zeros(classes, np.float32),
            course=TemporalCorrelation.start(classes, self.proof),
            verdicts=DisagreementRate.start(classes, self.apart),
            favour=ZeroShotBias.empty(classes, aux=task.aux_dim is not None) if self.apart else None,
            next_sweep=self.first_sweep,
            slot=0,
            held=0,
            sweep=IDLE,
            cursor=0,
            relabelled=0,
        )

    def _remap_classes(self, state: BayesMeansState, task: Task, class_map: Ints) -> BayesMeansState:
        remapped = self._init(task)
        if remap_classes(state, remapped, class_map, growing=not self.items_per_class) and remapped.seen:
            remapped.next_sweep = min(remapped.next_sweep, max(remapped.seen + 1, self.first_sweep))
        return remapped

    def memories(self, state: BayesMeansState) -> tuple[FeatureMemory, ...]:
        """Return the ring of kept samples per feature space; each belongs to the class of its largest soft label."""
        label = state.label[: blocks(state.held)].argmax(axis=1).reshape(-1)[: state.held]  # [M / 16, K, 16] → [held]
        capacity = max(1, len(state.prior) // state.task.classes)
        return tuple(
            FeatureMemory(name, space.kept[: state.held], label, None, capacity)
            for name, space in (("clip", state.clip), ("aux", state.aux))
            if space is not None
        )

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
        bias = self._bias(state, zero_shot_mass, live.soft_count, mood)
        parts, reliability = {"zero_shot": zero_shot}, {}
        features = tuple(space.transform(x) for x, space in zip(raw, state.spaces(), strict=True))
        means, model = np.zeros_like(prior), self._model()
        for name, x, sums in zip(("clip", "aux"), features, live.spaces(), strict=False):
            evidence, reliability[name] = model.log_likelihood(
                x, live.soft_count, live.square, sums.classes, sums.total + x, live.total_weight + 1
            )
            trusted = np.float32(mood.trust) * evidence
            means += trusted
            parts[name] = softmax(trusted)
        scores = softmax(prior - bias + model.mix_with_novel_class(means, mood.doubt, mood.trust * len(features)))

        explain = self._explain(state, sample, int(scores.argmax()), reliability, bias)
        if learn:
            again = state.held > 0 and float(state.clip.kept[state.slot - 1] @ sample.plain) > AGAIN
            if not again:  # or what was just seen would say it twice
                state.zero_shot_mass = zero_shot_mass
                if self.temporal:
                    state.course.follow(zero_shot, scores, live.soft_count, self.proof)
                self._judge(state, raw, prior0, prior0 + means / np.float32(mood.caution.need), bias, mood)
            self._keep(state, raw, features, prior, scores, 0.0 if again else float(zero_shot.max()), mood)
            self._sweep(state, mood)
        return Prediction(scores, parts, explain)

    def _mood(self, state: BayesMeansState) -> StepWeights:
        kappa = state.course.kappa(self.proof) if self.temporal else 0.0
        ruled = dominance(state.live.soft_count)
        lean = 1 - self.lean * ruled
        ruled *= self.balanced
        free = clip01(1 - (kappa - 0.1) / 0.2)  # of correlation: 1 up to κ = 0.1, 0 from 0.3 on
        kept = state.sure[: state.held]
        sure = float(kept.sum()) / max(int(np.count_nonzero(kept)), 1)
        caution = AdaptationPolicy()
        if state.favour is not None:
            caution = state.verdicts.caution(state.favour, state.zero_shot_mass, free, self.apart, sure)
        lean *= caution.need
        balance = max(free * ruled, caution.uneven)
        if not self.gradual:
            trust = lean * (1 - 0.5 * clip01((kappa - 0.1) / 0.3))
            return StepWeights(kappa, free, trust, 0.0, ruled, balance, sure, caution)
        level = max(0.0, kappa - 0.1) / 0.9
        trust = lean * (1 - 0.5 * level)
        return StepWeights(kappa, 1 - level, trust, self.doubt * level, ruled, balance, sure, caution)

    def _judge(
        self,
        state: BayesMeansState,
        raw: tuple[Array, ...],
        zero_shot: Array,
        verdict: Array,
        bias: Array,
        mood: StepWeights,
    ) -> None:
        """Count what the class means would say if nothing held them back; hear what speaks for a shift."""
        if state.favour is None:
            return
        if mood.caution.uneven or mood.caution.spared < 1:
            unguarded = mood._replace(caution=mood.caution.thrown_away())
            bias = self._bias(state, state.zero_shot_mass, state.live.soft_count, unguarded)
        state.verdicts.count(verdict - bias, zero_shot)
        state.favour.hear(zero_shot, raw, self._model())

    def _bias(self, state: BayesMeansState, zero_shot_mass: Array, mass: Array, mood: StepWeights) -> Array:
        """Hold back the classes that zero-shot overrates, help those that are frequent."""
        caution = mood.caution
        # A suspicion holds them back a little, a belief by what it takes to even them out.
        suspected = (1 - caution.shift) * (1 - caution.seeming) * caution.suspicion
        overrated = np.float32(suspected) * np.clip(
            log_share_excess(zero_shot_mass, 1), -self.zero_shot_pull, self.zero_shot_pull
        )
        if state.favour is not None:
            overrated = overrated + np.float32(caution.shift) * state.favour.bounded()
        pull = (1 + 0.5 * mood.ruled) * self.frequency_pull
        frequent = (pull + caution.uneven * max(0.0, 1 - pull)) * log_share_excess(mass, 10 - 5 * mood.ruled)
        if self.balanced and mass.any():
            # Or zero-shot's favourites would grow without bound; a class that is half of all may have more.
            most = self.zero_shot_pull + float(mass.max() / mass.sum()) + caution.uneven
            frequent = np.clip(frequent, -most, most)
        return as_float32(mood.ease * (caution.spared * overrated - caution.told * frequent))

    def _counted(self, sure: Array, labels: Array, mood: StepWeights) -> Array:
        """Return labels [B, K] of samples by how much they teach: less if zero-shot is less sure of them than of most.

        Such a sample may be of no class that we know, and would move the mean of one. In a correlated stream the
        recent mix knows more than zero-shot; in an uneven one rare classes need what they get. A sample that was shown
        again teaches nothing.
        """
        yields = mood.ease * (1 - mood.caution.uneven)
        usual = np.minimum(1, sure / np.float32(max(mood.sure, 1e-9))) ** np.float32(self.unsure)  # [B]
        return labels * as_float32(np.where(sure > 0, 1 - yields * (1 - usual), 0))[:, None]

    def _model(self) -> GaussianClassModel:
        return GaussianClassModel(self.sharpness, self.mean_prior, self.balanced)

    def _keep(
        self,
        state: BayesMeansState,
        raw: tuple[Array, ...],
        features: tuple[Array, ...],
        prior: Array,
        label: Array,
        sure: float,
        mood: StepWeights,
    ) -> None:
        """Count the sample in and put it into the ring; what it pushes out goes on counting, frozen."""
        if not self.items_per_class:
            grow(state)
        slot = state.slot
        passed = state.sweep != IDLE and slot < state.cursor  # a pass under way has done this slot already
        mass = state.live.soft_count
        full = state.held == len(state.prior)
        if full:
            old = as_float32(state.label[slot // BLOCK, :, slot % BLOCK])[None]
            weight = inverse_frequency_weights(mass, old, mood.balance)
            left = tuple(space.transform_draft(space.kept[slot])[None] for space in state.spaces())
            counted = self._counted(state.sure[slot : slot + 1], old, mood)
            state.frozen.add_buffered(counted, left, weight)
            if state.sweep != IDLE and not passed:
                state.draft.add_buffered(counted, left, weight)
        weight = inverse_frequency_weights(mass, label[None], mood.balance)
        for space, x in zip(state.spaces(), raw, strict=True):
            space.store(slot, x, float(weight[0]))
        state.moment0 += float(weight[0])
        state.held += not full
        state.slot = (slot + 1) % len(state.prior) if self.items_per_class else state.held
        state.prior[slot], state.sure[slot] = prior, sure
        state.label[slot // BLOCK, :, slot % BLOCK] = label
        state.prior_mass = state.prior_mass + softmax(prior)
        counted = self._counted(state.sure[slot : slot + 1], label[None], mood)
        state.live.add(counted, tuple(x[None] for x in features), weight)
        if passed:
            drafted = tuple(space.transform_draft(x)[None] for x, space in zip(raw, state.spaces(), strict=True))
            state.draft.add_buffered(counted, drafted, weight)

    def _sweep(self, state: BayesMeansState, mood: StepWeights) -> None:
        """Go on with the sweep under way, or begin one when it is time: so many rows, then enough for this step."""
        number = state.seen + 1
        if state.sweep == IDLE and number >= state.next_sweep:
            state.next_sweep = ceil(self.sweep_ratio * number)
            state.sweep, state.cursor = 0, 0
            state.frozen.decay(self.remember)
            state.draft.copy_from(state.frozen)
            if state.held == number:  # what left the ring can't be standardised anew
                for space in state.spaces():
                    space.fit_draft(number, state.moment0, self.variance_prior)
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

    def _relabel(self, state: BayesMeansState, rows: slice, mood: StepWeights) -> None:
        """Label kept samples by the sweep's last pass, and count them into its next."""
        trust = ANNEALING[state.sweep] * mood.trust
        reference = state.reference
        mass = reference.soft_count if trust else state.prior_mass
        score = state.prior[rows] - self._bias(state, state.zero_shot_mass, mass, mood)
        features = tuple(space.transform_draft(space.kept[rows]) for space in state.spaces())
        if trust:
            means = np.zeros_like(score)
            for x, sums, likelihood in zip(features, reference.spaces(), state.likelihoods(), strict=True):
                likelihood.add(x, sums.classes, reference.soft_count, trust, means)
            score += self._model().mix_with_novel_class(means, mood.doubt, trust * len(features))
        label = softmax(score)
        counted = self._counted(state.sure[rows], label, mood)
        state.draft.add(counted, features, inverse_frequency_weights(mass, label, mood.balance))
        if state.sweep == IDLE - 1:
            slots = np.arange(rows.start, rows.stop)
            state.label[slots // BLOCK, :, slots % BLOCK] = label

    def _turn(self, state: BayesMeansState) -> None:
        """End a pass: its draft becomes the next one's reference, or, after the last, what answers."""
        state.draft.flush()
        state.sweep += 1
        state.cursor = 0
        if state.sweep == IDLE:
            state.live, state.draft = state.draft, state.live  # the next sweep drafts anew
            for space in state.spaces():
                space.use_draft()
            return
        state.reference, state.draft = state.draft, state.reference
        state.draft.copy_from(state.frozen)
        model, reference = self._model(), state.reference
        for likelihood, sums in zip(state.likelihoods(), reference.spaces(), strict=True):
            likelihood.copy_from(model.linear(reference, sums.classes, sums.total, reference.total_weight))

    def _explain(
        self, state: BayesMeansState, sample: Sample, answer: int, reliability: dict[str, float], bias: Array
    ) -> Callable[[], Explanation]:
        # The state goes on changing: what the explanation needs of it is copied now.
        names, kept = state.task.class_names, state.held
        weight = state.label[: blocks(kept), answer].ravel()[:kept] * (state.sure[:kept] > 0)
        slots = top_indices(weight, 8)
        newest = state.seen - 1 - (state.slot - 1 - slots) % max(len(state.prior), 1)
        near = weight[slots] * (state.clip.kept[slots] @ sample.plain)
        return partial(explain, names, answer, newest, near, reliability, state.live.soft_count.copy(), bias)
