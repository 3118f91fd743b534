"""BayesMeans, a method of this project: class means in standardised spaces, learned from soft self-labels.

For a sample with zero-shot probabilities p, the scores are

    softmax( log p - (1 - κ)·(log q - 2·log π) + log recent + Σ over spaces of the log-likelihoods )

- q are zero-shot's mean probabilities over the window: p/q is what zero-shot says apart from its own preferences.
- π are the class shares of the window, as far as they foresee the next class better than even shares do. One log π
  makes up for q, in which the true shares stand too; the other is the prior.
- κ is the share of samples that the mix of the last few foresees; that mix is the prior then.
- The log-likelihoods are those of the Gaussian class model (`components/gaussian_classes.py`).

The sample is then learned with its scores as soft label. A sweep relabels the window, some samples per step: it begins
with zero-shot alone and trusts the class means more from pass to pass. `docs/methods/bayes_means.md` has the derivation.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar, final

import numpy as np

from cosmic_tta.core.arrays import Array, Ints, as_float32, dots, softmax
from cosmic_tta.core.memory import FeatureMemory
from cosmic_tta.core.method import Method
from cosmic_tta.core.parameters import LARGE, param
from cosmic_tta.core.types import Prediction, Sample, Task
from cosmic_tta.methods.bayes_means.explain import explain
from cosmic_tta.methods.bayes_means.state import PASSES, BayesMeansState, remap_classes
from cosmic_tta.methods.components.gaussian_classes import (
    ClassModel,
    GaussianParameters,
    LinearModel,
    linear,
    mix_with_novel_class,
    relabel,
    score,
)
from cosmic_tta.methods.registry import register_method

TRUST_PER_PASS = (0.0, 0.5, 1.0)  # weight of the class means in a sweep; the first pass is zero-shot alone
assert len(TRUST_PER_PASS) == PASSES
MIN_WINDOW = 400  # samples
FIRST_SWEEP = 20  # samples before the first sweep
RECENT_SHARE = 0.2  # of the newest sample in the recent mix
CORRELATION_PRIOR = 5.0  # samples that speak against a correlated stream before the first
MIN_MIX_WEIGHT = 0.05  # of the recent and of the overall mix when they are compared
CORRELATION_ONSET = 0.1  # κ up to which a stream counts as uncorrelated
MAX_RECENT = 0.98  # weight of the recent mix in the prior
MAX_DISTRUST, MAX_NOVEL = 0.5, 0.5  # in a fully correlated stream: less weight of class means, share of novel classes
MAX_ODDS = 10.0
PSEUDO_COUNT = 5.0
SHARE_WEIGHT = 2.0


@dataclass(frozen=True)
class _Correlation:
    """How correlated the stream is, and what follows from it."""

    kappa: float  # share of samples that the recent mix foresees
    level: float  # 0 up to the onset, 1 at κ = 1

    @property
    def trust(self) -> float:
        """Weight of the class means: they saw few classes of late."""
        return 1 - MAX_DISTRUST * self.level

    @property
    def novel(self) -> float:
        """Prior share of a novel class in every class."""
        return MAX_NOVEL * self.level


@register_method
@final
@dataclass(frozen=True)
class BayesMeans(Method[BayesMeansState]):
    """Class means in standardised spaces, from soft self-labels: one setting for all data, follows a drift.

    In each feature space a class has a mean; all classes share a spread. The likelihoods of the spaces are multiplied,
    with zero-shot as the prior. Everything is learned from a window of the last samples.

    Args:
        sharpness: Effective dimensions of a space. A larger value gives the class means more weight.
        window: Samples per class in the window, which holds at least 400.
        rows_per_step: Samples of the window that a step relabels.
        variance_prior: Shrinkage of each dimension's variance.
        mean_prior: Shrinkage of the running mean.
        temporal: Use the recent class mix when the stream is correlated.

    Examples:
        >>> from cosmic_tta.features.synthetic import superclass_pack
        >>> pack = superclass_pack(0, images=40, dim=16, aux_dim=8)
        >>> state = BayesMeans().init(pack.task())
        >>> BayesMeans().step(state, pack.sample(0)).scores.shape
        (20,)
    """

    name: ClassVar[str] = "bayes_means"

    sharpness: float = param(10.0, "effective dimensions of a space: the weight of class means", range=(0, LARGE))
    window: int = param(16, "samples per class in the window; it holds at least 400", range=(1, LARGE), sizes_state=True)
    rows_per_step: int = param(16, "samples of the window that a step relabels", range=(1, LARGE))
    variance_prior: float = param(20.0, "samples' worth of shrinkage of each dimension's variance", range=(0, LARGE))
    mean_prior: float = param(5.0, "samples' worth of shrinkage of the running mean", range=(0, LARGE))
    temporal: bool = param(True, "use the recent class mix when the stream is correlated")

    def _init(self, task: Task) -> BayesMeansState:
        classes, width = task.classes, task.dim + (task.aux_dim or 0)
        room = max(self.window * classes, MIN_WINDOW)
        return BayesMeansState(
            task,
            seen=0,
            samples=np.zeros((room, width), np.float32),
            prior=np.zeros((room, classes), np.float32),
            label=np.zeros(room, np.int64),
            confidence=np.zeros(room, np.float32),
            slot=0,
            held=0,
            moments=np.zeros((2, width)),
            zero_shot_sum=np.zeros(classes, np.float32),
            live=ClassModel.empty(classes, width),
            draft=ClassModel.empty(classes, width),
            reference=ClassModel.empty(classes, width),
            likelihood=LinearModel.empty(classes, width, 1 if task.aux_dim is None else 2),
            sweep_pass=0,
            cursor=0,
            recent=np.full(classes, 1 / classes, np.float32),
            explained=0.0,
            compared=CORRELATION_PRIOR,
            uneven_odds=0.0,
        )

    def _remap_classes(self, state: BayesMeansState, task: Task, class_map: Ints) -> BayesMeansState:
        return remap_classes(state, self._init(task), class_map)

    def memories(self, state: BayesMeansState) -> tuple[FeatureMemory, ...]:
        """Return the window per feature space."""
        task, held = state.task, state.held
        parts = {"clip": state.samples[:held, : task.dim]}
        if task.aux_dim is not None:
            parts["aux"] = state.samples[:held, task.dim :]
        room = max(1, len(state.samples) // task.classes)
        return tuple(FeatureMemory(name, rows, state.label[:held], None, room) for name, rows in parts.items())

    def _predict(self, state: BayesMeansState, sample: Sample, *, learn: bool) -> Prediction:
        task = state.task
        row = sample.clip[0] if sample.aux is None else np.concatenate((sample.clip[0], sample.aux))  # [W]
        zero_shot = softmax(np.float32(task.logit_scale) * dots(task.unit_text, sample.clip[:1])[0])  # [K]
        log_zero_shot = np.log(zero_shot + np.float32(1e-30))
        zero_shot_sum = state.zero_shot_sum * np.float32(1 - 1 / len(state.samples)) + zero_shot

        # Zero-shot without its own preferences, times the prior of the classes.
        correlation = self._correlation(state)
        prior = log_zero_shot + self._recent_prior(state, correlation)
        bias = self._bias(zero_shot_sum, state.live.soft_count, state.uneven_odds, correlation)

        # The class means of each space.
        found, x, reliability = score(state.live, row, self._parameters(task))
        means = np.float32(correlation.trust) * found.sum(axis=0)
        weight = correlation.trust * len(found)
        evidence = mix_with_novel_class(means, correlation.novel, weight, self.sharpness)
        scores = softmax(prior - bias + evidence)

        names = ("clip", "aux")[: len(found)]
        parts = {"zero_shot": zero_shot} | dict(zip(names, softmax(found), strict=True))
        label = int(scores.argmax())
        why = self._explanation(state, row, label, dict(zip(names, reliability.tolist(), strict=True)), bias)
        if learn:
            self._learn_class_mix(state, log_zero_shot - np.log(zero_shot_sum + 1) + means, scores)
            state.zero_shot_sum = zero_shot_sum
            self._learn(state, row, x, prior, scores, label)
            self._relabel(state, correlation)
        return Prediction(scores, parts, why)

    def _parameters(self, task: Task) -> GaussianParameters:
        return GaussianParameters(task.dim, self.sharpness, self.mean_prior, self.variance_prior)

    # The prior of the classes

    def _correlation(self, state: BayesMeansState) -> _Correlation:
        kappa = state.explained / state.compared if self.temporal else 0.0
        return _Correlation(kappa, max(0.0, kappa - CORRELATION_ONSET) / (1 - CORRELATION_ONSET))

    def _recent_prior(self, state: BayesMeansState, correlation: _Correlation) -> Array:
        """Return the log-prior of the recent mix, [K], relative to even classes."""
        share = min(MAX_RECENT, correlation.kappa)
        if share <= CORRELATION_ONSET:
            return np.zeros_like(state.recent)
        return as_float32(np.log(len(state.recent) * np.float32(share) * state.recent + np.float32(1 - share)))

    def _bias(self, zero_shot_sum: Array, soft_count: Array, uneven_odds: float, correlation: _Correlation) -> Array:
        """Return log q - 2·log π, [K], less of it in a correlated stream."""
        classes = len(soft_count)
        preference = classes * (zero_shot_sum + 1) / (zero_shot_sum.sum() + classes)
        shares = classes * (soft_count + PSEUDO_COUNT) / (soft_count.sum() + PSEUDO_COUNT * classes)
        uneven = 1 / (1 + np.exp(-uneven_odds))
        shares = uneven * shares + 1 - uneven
        return as_float32((1 - correlation.level) * (np.log(preference) - SHARE_WEIGHT * np.log(shares)))

    def _learn_class_mix(self, state: BayesMeansState, log_evidence: Array, scores: Array) -> None:
        """Compare how well the recent mix, the window's shares and even shares foresaw a sample."""
        if not self.temporal:
            return
        evidence = np.exp(log_evidence - log_evidence.max())  # [K] what the sample says of its class
        count, classes = state.live.soft_count, len(scores)
        even = float(evidence.mean())
        shares = float((count + 1) @ evidence) / (float(count.sum()) + classes)
        state.uneven_odds = float(np.clip(state.uneven_odds + np.log(shares / even), -MAX_ODDS, MAX_ODDS))
        uneven = 1 / (1 + np.exp(-state.uneven_odds))
        kappa = state.explained / state.compared
        recent = max(kappa, MIN_MIX_WEIGHT) * float(state.recent @ evidence)
        overall = max(1 - kappa, MIN_MIX_WEIGHT) * float(uneven * shares + (1 - uneven) * even)
        decay = 1 - 1 / len(state.samples)
        state.explained = decay * state.explained + recent / (recent + overall)
        state.compared = decay * state.compared + 1
        state.recent = (1 - np.float32(RECENT_SHARE)) * state.recent + np.float32(RECENT_SHARE) * scores

    # Learning

    def _learn(
        self, state: BayesMeansState, row: Array, x: Array, prior: Array, scores: Array, label: int
    ) -> None:
        """Put a sample into the window and into the models."""
        slot, full = state.slot, state.held == len(state.samples)
        exact = row.astype(np.float64)
        state.moments[0] += exact
        state.moments[1] += exact * exact
        if full:
            old = state.samples[slot].astype(np.float64)
            state.moments[0] -= old
            state.moments[1] -= old * old
        state.samples[slot], state.prior[slot] = row, prior
        state.label[slot], state.confidence[slot] = label, scores[label]
        state.held += not full
        state.slot = (slot + 1) % len(state.samples)
        state.live.add(scores[None], x[None])
        if full and slot < state.cursor:  # the pass has been here; otherwise it still comes
            state.draft.add(scores[None], state.draft.standardize(row[None], state.task.dim))

    def _relabel(self, state: BayesMeansState, correlation: _Correlation) -> None:
        """Go on with the sweep by so many samples."""
        if state.seen + 1 < FIRST_SWEEP:
            return
        parameters = self._parameters(state.task)
        left = self.rows_per_step
        while left > 0:
            first = state.sweep_pass == 0
            if state.cursor == 0:
                if first:
                    state.draft.fit(state.moments, state.held, parameters)
                state.draft.clear()
            rows = slice(state.cursor, min(state.cursor + left, state.held))
            counts = state.zero_shot_sum if first else state.reference.soft_count
            bias = self._bias(state.zero_shot_sum, counts, state.uneven_odds, correlation)
            reference = None if first else (state.reference, state.likelihood)
            trust = TRUST_PER_PASS[state.sweep_pass] * correlation.trust
            labels = relabel(
                state.samples[rows], state.prior[rows] - bias, reference, trust, correlation.novel, state.draft,
                parameters,
            )  # fmt: skip
            left -= rows.stop - rows.start
            state.cursor = rows.stop
            if state.sweep_pass == PASSES - 1:
                state.label[rows], state.confidence[rows] = labels.argmax(axis=1), labels.max(axis=1)
            if state.cursor == state.held:
                self._end_pass(state, parameters)
                if state.sweep_pass == 0:
                    return

    def _end_pass(self, state: BayesMeansState, parameters: GaussianParameters) -> None:
        """Let the draft be the next pass's reference, or, after the last pass, the model that answers."""
        state.cursor = 0
        state.sweep_pass = (state.sweep_pass + 1) % PASSES
        if state.sweep_pass == 0:
            state.live, state.draft = state.draft, state.live
        else:
            state.reference, state.draft = state.draft, state.reference
            state.likelihood = linear(state.reference, parameters)
            state.draft.centre[:], state.draft.scale[:] = state.reference.centre, state.reference.scale

    def _explanation(
        self, state: BayesMeansState, row: Array, label: int, reliability: dict[str, float], bias: Array
    ) -> partial[object]:
        # The state goes on changing: what the explanation needs of it is copied now.
        own = np.flatnonzero(state.label[: state.held] == label)
        own = own[np.argsort(-state.confidence[own], kind="stable")[:8]]
        votes = state.confidence[own] * (state.samples[own, : state.task.dim] @ row[: state.task.dim])
        position = state.seen - 1 - (state.slot - 1 - own) % len(state.samples)
        names, counts = state.task.class_names, state.live.soft_count.copy()
        return partial(explain, names, label, position, votes, reliability, counts, bias)
