"""BayesMeans, a method of this project: class means in standardised spaces, learned from soft self-labels.

For a sample with zero-shot probabilities p, the scores are

    softmax( log p - log q + 1.75·log π + Σ over spaces of the log-likelihoods )

- q are zero-shot's mean probabilities over the window: what it prefers under a shift, and what the stream holds.
- π are even shares, or the class shares of the window if they predict the next class better. In a correlated stream
  the mix of the last few samples takes the place of both q and π.
- The log-likelihoods are those of the Gaussian class model (`components/gaussian_classes.py`).

Then the sample is learned, with its scores as soft label. Each step also relabels some samples of the window: a sweep
begins with zero-shot alone and trusts the class means more from pass to pass. `docs/methods/bayes_means.md` says why.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import exp, log
from typing import ClassVar, final

import numpy as np

from cosmic_tta.core.arrays import TINY, Array, Ints, as_float32, dots, softmax
from cosmic_tta.core.explanation import Explanation, votes
from cosmic_tta.core.memory import FeatureMemory
from cosmic_tta.core.method import Method
from cosmic_tta.core.parameters import LARGE, param
from cosmic_tta.core.types import Prediction, Sample, Task
from cosmic_tta.methods.bayes_means.state import TRUST, BayesMeansState, remap_classes
from cosmic_tta.methods.components import gaussian_classes as gaussian
from cosmic_tta.methods.components.gaussian_classes import ClassModel, GaussianParameters, LinearModel
from cosmic_tta.methods.components.sample_window import SampleWindow
from cosmic_tta.methods.registry import register_method

MIN_WINDOW = 600  # samples
VOTES = 8  # samples that an explanation lists
FIRST_SWEEP = 20  # samples before the first sweep
RECENT_SHARE = 0.2  # of the newest sample in the recent mix
CORRELATION_PRIOR = 5.0  # samples that speak against a correlated stream before the first
MIN_MIX_WEIGHT = 0.05  # of the recent and of the overall mix when they are compared
CORRELATION_ONSET = 0.1  # κ up to which a stream counts as uncorrelated
MAX_RECENT = 0.98  # weight of the recent mix in the prior
MAX_DOUBT = 0.5  # in a fully correlated stream: what the class means lose in weight, and the share of novel classes
JUDGED_PRIOR = 20.0  # samples in all that make the window's counts even when its shares are judged
MIN_GAIN = 0.1  # nats per sample by which the window's shares must predict classes better than even shares do
MAX_ODDS = 10.0  # bounds the log-odds of uneven shares, so that a stream that changes is noticed in time
SHARE_PRIOR = 3.0  # samples that every class has beforehand
SHARE_WEIGHT = 1.75  # exponent of the class shares: see `_prior_offset`


@register_method
@final
@dataclass(frozen=True)
class BayesMeans(Method[BayesMeansState]):
    """Class means in standardised spaces, from soft self-labels: one setting for all data, follows a drift.

    In each feature space a class has a mean; all classes share a spread. The likelihoods of the spaces are multiplied,
    with zero-shot as the prior. Everything is learned from a window of the last samples.

    Examples:
        >>> from cosmic_tta.features.synthetic import superclass_pack
        >>> pack = superclass_pack(0, images=40, dim=16, aux_dim=8)
        >>> state = BayesMeans().init(pack.task())
        >>> BayesMeans().step(state, pack.sample(0)).scores.shape
        (20,)
    """

    name: ClassVar[str] = "bayes_means"

    sharpness: float = param(10.0, "effective dimensions of a space: the weight of class means", range=(0, LARGE))
    window: int = param(
        16, "samples per class in the window; it holds at least 600", range=(1, LARGE), sizes_state=True
    )
    rows_per_step: int = param(16, "samples of the window that a step relabels", range=(1, LARGE))
    variance_prior: float = param(20.0, "samples' worth of shrinkage of each dimension's variance", range=(0, LARGE))
    mean_prior: float = param(5.0, "samples' worth of shrinkage of the running mean", range=(0, LARGE))
    temporal: bool = param(True, "use the recent class mix when the stream is correlated")

    def _init(self, task: Task) -> BayesMeansState:
        classes, width = task.classes, task.dim + (task.aux_dim or 0)
        room = max(self.window * classes, MIN_WINDOW)
        live, draft, reference = (ClassModel.empty(classes, width) for _ in range(3))
        return BayesMeansState(
            task, seen=0, window=SampleWindow.empty(room, width, classes), live=live, draft=draft, reference=reference,
            likelihood=LinearModel.empty(classes, width, 1 if task.aux_dim is None else 2), sweep_pass=0, cursor=0,
            pass_offset=np.zeros(classes, np.float32), zero_shot_sum=np.zeros(classes, np.float32), explained=0.0,
            compared=CORRELATION_PRIOR, recent=np.full(classes, 1 / classes, np.float32), uneven_odds=0.0,
        )  # fmt: skip

    def _remap_classes(self, state: BayesMeansState, task: Task, class_map: Ints) -> BayesMeansState:
        return remap_classes(state, self._init(task), class_map)

    def memories(self, state: BayesMeansState) -> tuple[FeatureMemory, ...]:
        """Return the window per feature space."""
        task, window = state.task, state.window
        rows, labels = window.samples[: window.held], window.label[: window.held]
        names = ("clip", "aux")[: 1 if task.aux_dim is None else 2]
        spaces = gaussian.spaces(task.dim, rows.shape[1])
        room = max(1, state.room // task.classes)
        return tuple(
            FeatureMemory(name, rows[:, space], labels, None, room) for name, space in zip(names, spaces, strict=True)
        )

    def _predict(self, state: BayesMeansState, sample: Sample, *, learn: bool) -> Prediction:
        task = state.task
        row = sample.clip[0] if sample.aux is None else np.concatenate((sample.clip[0], sample.aux))  # [W]
        zero_shot = softmax(np.float32(task.logit_scale) * dots(task.unit_text, sample.clip[:1])[0])  # [K]
        log_zero_shot = np.log(zero_shot + TINY)
        zero_shot_sum = state.zero_shot_sum * np.float32(1 - 1 / state.room) + zero_shot

        # The prior: zero-shot, the recent mix and the class shares.
        kappa, level = self._correlation(state)
        prior = log_zero_shot + _recent_prior(state.recent, kappa)
        bias = _prior_offset(zero_shot_sum, state.live.soft_count, state.uneven_odds, level)

        # The likelihood: the class means of each space.
        found, reliability = gaussian.score(state.live, row, self._parameters(task))  # [S, K], [S]
        doubt = MAX_DOUBT * level
        means = np.float32(1 - doubt) * found.sum(axis=0)
        evidence = gaussian.mix_with_novel_class(means, doubt, (1 - doubt) * len(found), self.sharpness)
        logits = prior - bias + evidence
        scores = softmax(logits)

        names = ("clip", "aux")[: len(found)]
        parts = {"zero_shot": zero_shot} | dict(zip(names, softmax(found), strict=True))
        label = int(scores.argmax())
        why = self._explanation(state, row, label, dict(zip(names, reliability.tolist(), strict=True)), bias)
        if learn:
            self._learn_class_mix(state, log_zero_shot, means, scores)
            state.zero_shot_sum = zero_shot_sum
            self._learn(state, row, prior, logits, scores)
            if kappa <= CORRELATION_ONSET and state.window.has_changed(gaussian.spaces(task.dim, len(row))):
                self._forget(state)
            self._relabel(state, level)
        return Prediction(scores, parts, why)

    def _parameters(self, task: Task) -> GaussianParameters:
        return GaussianParameters(task.dim, self.sharpness, self.mean_prior, self.variance_prior)

    def _correlation(self, state: BayesMeansState) -> tuple[float, float]:
        """Return κ, the share of samples that the recent mix predicts, and how far that is above the onset, 0 to 1."""
        kappa = state.explained / state.compared if self.temporal else 0.0
        return kappa, max(0.0, kappa - CORRELATION_ONSET) / (1 - CORRELATION_ONSET)

    def _learn_class_mix(self, state: BayesMeansState, log_zero_shot: Array, means: Array, scores: Array) -> None:
        """Compare how well the recent mix, the window's shares and even shares predicted a sample."""
        preferred = state.zero_shot_sum + np.float32(JUDGED_PRIOR / len(scores))  # counted as the shares are
        evidence = log_zero_shot - np.log(preferred) + means
        evidence = np.exp(evidence - evidence.max())  # [K] what the sample says of its class
        even = float(evidence.sum()) / len(scores)
        expected = float(state.live.soft_count @ evidence) + JUDGED_PRIOR * even
        shares = expected / (state.live.number + JUDGED_PRIOR)
        odds = state.uneven_odds + log(shares / even) - MIN_GAIN
        state.uneven_odds = min(max(odds, -MAX_ODDS), MAX_ODDS)
        uneven = 1 / (1 + exp(-state.uneven_odds))
        kappa = state.explained / state.compared
        recent = max(kappa, MIN_MIX_WEIGHT) * float(state.recent @ evidence)
        overall = max(1 - kappa, MIN_MIX_WEIGHT) * float(uneven * shares + (1 - uneven) * even)
        decay = 1 - 1 / state.room
        state.explained = decay * state.explained + recent / (recent + overall)
        state.compared = decay * state.compared + 1
        state.recent = (1 - np.float32(RECENT_SHARE)) * state.recent + np.float32(RECENT_SHARE) * scores

    def _learn(self, state: BayesMeansState, row: Array, prior: Array, logits: Array, scores: Array) -> None:
        """Put a sample into the window and into the models."""
        slot, full, parameters = state.window.slot, state.window.held == state.room, self._parameters(state.task)
        state.window.add(row, prior, int(scores.argmax()), float(scores.max()))
        gaussian.add_sample(state.live, row, logits, parameters)
        if full and slot < state.cursor:  # the pass has been here; otherwise it still comes
            gaussian.add_sample(state.draft, row, logits, parameters)

    def _forget(self, state: BayesMeansState) -> None:
        """Keep the last few samples alone, after a sudden change. A sweep over them takes a few steps."""
        state.window.keep_recent()
        state.zero_shot_sum = softmax(state.window.prior[: state.window.held]).sum(axis=0)
        state.sweep_pass = state.cursor = 0

    def _relabel(self, state: BayesMeansState, level: float) -> None:
        """Go on with the sweep by so many samples."""
        if state.seen + 1 < FIRST_SWEEP:
            return
        parameters, window = self._parameters(state.task), state.window
        left, doubt = self.rows_per_step, MAX_DOUBT * level
        while left > 0:
            first = state.sweep_pass == 0
            if state.cursor == 0:
                if first:
                    state.draft.fit(window.moments, window.held, parameters)
                state.draft.clear()
                counts = state.zero_shot_sum if first else state.reference.soft_count
                state.pass_offset = _prior_offset(state.zero_shot_sum, counts, state.uneven_odds, level)
            rows = slice(state.cursor, min(state.cursor + left, window.held))
            reference = None if first else (state.reference, state.likelihood)
            logits, trust = window.prior[rows] - state.pass_offset, TRUST[state.sweep_pass] * (1 - doubt)
            labels = gaussian.relabel(window.samples[rows], logits, reference, trust, doubt, state.draft, parameters)
            left -= rows.stop - rows.start
            state.cursor = rows.stop
            if state.sweep_pass == len(TRUST) - 1:
                window.label[rows], window.confidence[rows] = labels.argmax(axis=1), labels.max(axis=1)
            if state.cursor == window.held:
                self._end_pass(state, parameters)
                if state.sweep_pass == 0:
                    return

    def _end_pass(self, state: BayesMeansState, parameters: GaussianParameters) -> None:
        """Let the draft be the next pass's reference, or, after the last pass, the model that answers."""
        state.cursor = 0
        state.sweep_pass = (state.sweep_pass + 1) % len(TRUST)
        if state.sweep_pass == 0:
            state.live, state.draft = state.draft, state.live
        else:
            state.reference, state.draft = state.draft, state.reference
            state.likelihood = gaussian.linear(state.reference, parameters)
            state.draft.centre[:], state.draft.scale[:] = state.reference.centre, state.reference.scale

    def _explanation(
        self, state: BayesMeansState, row: Array, label: int, reliability: dict[str, float], bias: Array
    ) -> Callable[[], Explanation]:
        # The state goes on changing: what the explanation needs of it is copied now.
        ago, weights = state.window.supporters(label, row[: state.task.dim], VOTES)
        position = state.seen - 1 - ago
        counts = state.live.soft_count.copy()
        return partial(_explain, state.task.class_names, label, position, weights, reliability, counts, bias)


def _recent_prior(recent: Array, kappa: float) -> Array:
    """Return the log-prior of the recent mix, [K], relative to even classes."""
    if kappa <= CORRELATION_ONSET:
        return np.zeros_like(recent)
    share = np.float32(min(MAX_RECENT, kappa))
    return as_float32(np.log(len(recent) * share * recent + (1 - share)))


def _prior_offset(zero_shot_sum: Array, soft_count: Array, uneven_odds: float, level: float) -> Array:
    """Return log q - 1.75·log π, [K], less of it in a correlated stream.

    Where the classes are uneven, q is zero-shot's preference times π. So log π counts twice: once in the preference
    q/π that is taken off, once as the prior. A weight a little below 2 keeps the shares from feeding on themselves.
    """
    classes = len(soft_count)
    mean_zero_shot = classes * (zero_shot_sum + 1) / (zero_shot_sum.sum() + classes)
    shares = classes * (soft_count + SHARE_PRIOR) / (soft_count.sum() + classes * SHARE_PRIOR)
    uneven = 1 / (1 + exp(-uneven_odds))
    return as_float32((1 - level) * (np.log(mean_zero_shot) - SHARE_WEIGHT * np.log(uneven * shares + 1 - uneven)))


def _explain(
    names: Sequence[str], label: int, samples: Ints, weights: Array, reliability: dict[str, float], counts: Array,
    bias: Array,
) -> Explanation:  # fmt: skip
    return Explanation(
        votes={"clip": votes(names[label], samples, weights)},
        reliability=reliability,
        soft_counts=dict(zip(names, counts.tolist(), strict=True)),
        bias=dict(zip(names, bias.tolist(), strict=True)),
    )
