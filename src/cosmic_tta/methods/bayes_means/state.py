"""The state of BayesMeans: a window of the last samples, the class model that answers, and the sweep under way."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cosmic_tta.core.arrays import Array, Ints, dots, softmax, take_classes
from cosmic_tta.core.errors import SnapshotError
from cosmic_tta.core.types import State, Task
from cosmic_tta.methods.components.gaussian_classes import ClassModel, LinearModel
from cosmic_tta.methods.components.sample_window import SampleWindow

TRUST = (0.0, 0.5, 1.0)  # in the class means, per pass of a sweep; the first pass is zero-shot alone


@dataclass
class BayesMeansState(State):
    """A row of the window has W = D + E features, CLIP and auxiliary."""

    window: SampleWindow  # its priors: zero-shot and the recent mix
    zero_shot_sum: Array  # [K] sum of zero-shot's probabilities; it decays with the window
    live: ClassModel  # that answers
    draft: ClassModel  # of the sweep's pass under way
    reference: ClassModel  # of the pass before
    likelihood: LinearModel  # its log-likelihoods
    sweep_pass: int
    cursor: int  # samples that this pass has labelled
    pass_offset: Array  # [K] what this pass takes off the samples' priors
    recent: Array  # [K] mix of the last few samples
    explained: float  # samples that the recent mix explains ...
    compared: float  # ... of so many; both decay with the window
    uneven_odds: float  # log-odds that the window's class shares predict the next class better than even shares

    @property
    def room(self) -> int:
        """M, the size of the window."""
        return len(self.window.samples)

    def validate(self) -> None:
        """Refuse contents that no stream can leave behind."""
        super().validate()
        for fits, problem in (
            (self.window.held <= self.seen, "window of samples contradicts itself"),
            (0 <= self.sweep_pass < len(TRUST) and 0 <= self.cursor <= self.window.held, "sweep cannot be under way"),
            (0 <= self.explained <= self.compared and self.compared > 0, "counts of explained samples are impossible"),
        ):
            if not fits:
                raise SnapshotError(f"the saved {problem}; the file is damaged.")


def remap_classes(state: BayesMeansState, remapped: BayesMeansState, class_map: Ints) -> BayesMeansState:
    """Fill the empty state of other classes with what was learned: `class_map` [K] has each class's old index or -1.

    A sweep goes on, unless the window has another size.
    """
    window, kept, same_room = state.window, class_map >= 0, state.room == remapped.room
    where = np.arange(state.room) if same_room else window.newest(min(window.held, remapped.room))
    samples, prior, label, confidence = window.take(where)
    before, now = _logits(state.task, samples), _logits(remapped.task, samples)
    old, normalizer = class_map.clip(0), np.logaddexp.reduce(before, axis=1, keepdims=True)
    prior = np.where(kept, prior[:, old] + (now - before[:, old]), now - normalizer)
    new_index = np.full(state.task.classes, -1)
    new_index[class_map[kept]] = np.flatnonzero(kept)
    label = new_index[label]
    confidence = np.where(label < 0, np.float32(0), confidence)
    label = np.where(label < 0, prior.argmax(axis=1), label)
    remapped.window.refill(samples, prior, label, confidence)
    remapped.window.recent_mean = window.recent_mean.copy()
    if same_room:  # the ring stays as it is
        remapped.window.slot, remapped.window.held = window.slot, window.held
        remapped.window.moments = window.moments.copy()
        remapped.draft, remapped.reference = state.draft.remapped(class_map), state.reference.remapped(class_map)
        remapped.likelihood = state.likelihood.remapped(class_map)
        remapped.sweep_pass, remapped.cursor = state.sweep_pass, state.cursor
        remapped.pass_offset = take_classes(state.pass_offset, class_map)

    remapped.seen, remapped.live = state.seen, state.live.remapped(class_map)
    remapped.zero_shot_sum = take_classes(state.zero_shot_sum, class_map)
    remapped.zero_shot_sum[~kept] = softmax(now[: window.held]).sum(axis=0)[~kept]
    recent = take_classes(state.recent, class_map)
    remapped.recent = recent + (state.recent.sum() - recent.sum()) / len(recent)  # what was of removed classes
    remapped.explained, remapped.compared = state.explained, state.compared
    remapped.uneven_odds = state.uneven_odds
    return remapped


def _logits(task: Task, samples: Array) -> Array:
    """Return zero-shot's logits of samples [n, W], [n, K]."""
    return np.float32(task.logit_scale) * dots(task.unit_text, np.ascontiguousarray(samples[:, : task.dim]))
