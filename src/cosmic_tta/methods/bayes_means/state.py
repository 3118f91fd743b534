"""The state of BayesMeans: a window of the last samples, the class model that answers, and the sweep under way."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cosmic_tta.core.arrays import Array, Ints, as_float32, dots, softmax, take_classes
from cosmic_tta.core.errors import SnapshotError
from cosmic_tta.core.types import State, Task
from cosmic_tta.methods.components.gaussian_classes import ClassModel, Floats, LinearModel

PASSES = 3  # of a sweep


@dataclass
class BayesMeansState(State):
    """The window is a ring of M samples; a row has W = D + E features, CLIP and auxiliary."""

    samples: Array  # [M, W] not standardised
    prior: Array  # [M, K] log-probability of each sample before any class mean: zero-shot and the recent mix
    label: Ints  # [M] the class that each sample supports
    confidence: Array  # [M] its probability
    slot: int  # that the next sample takes
    held: int  # samples in the window
    moments: Floats  # [2, W] sums of the window's rows, and of their squares
    zero_shot_sum: Array  # [K] sum of zero-shot's probabilities; it decays with the window
    live: ClassModel  # that answers
    draft: ClassModel  # of the sweep's pass under way
    reference: ClassModel  # of the pass before
    likelihood: LinearModel  # its log-likelihoods
    sweep_pass: int
    cursor: int  # samples that this pass has labelled
    recent: Array  # [K] mix of the last few samples
    explained: float  # samples that the recent mix explains ...
    compared: float  # ... of so many; both decay with the window
    uneven_odds: float  # log-odds that the window's class shares foresee the next class better than even shares

    def validate(self) -> None:
        """Refuse contents that no stream can leave behind."""
        super().validate()
        room = len(self.samples)
        next_slot = self.slot == self.held % room if self.held < room else 0 <= self.slot < room
        for fits, problem in (
            (0 <= self.held <= min(self.seen, room) and next_slot, "window of samples contradicts itself"),
            (0 <= self.sweep_pass < PASSES and 0 <= self.cursor <= self.held, "sweep cannot be under way"),
            (0 <= self.explained <= self.compared and self.compared > 0, "counts of explained samples are impossible"),
            (((self.label >= 0) & (self.label < self.task.classes)).all(), "window has labels of no class"),
        ):
            if not fits:
                raise SnapshotError(f"the saved {problem}; the file is damaged.")


def remap_classes(state: BayesMeansState, remapped: BayesMeansState, class_map: Ints) -> BayesMeansState:
    """Fill the empty state of other classes with what was learned: `class_map` [K] has each class's old index or -1.

    A sweep goes on if only the order of the classes has changed. Otherwise it begins again.
    """
    old, task = state.task, remapped.task
    order = (state.slot - state.held + np.arange(state.held)) % len(state.samples)  # the oldest first
    kept = order[max(0, len(order) - len(remapped.samples)) :]
    reordered = len(class_map) == old.classes and bool((class_map >= 0).all())
    reordered = reordered and np.array_equal(task.text, old.text[class_map])
    rows = kept if not reordered else np.arange(len(state.samples))  # the ring stays as it is
    where = slice(0, len(rows))

    before, now = _log_zero_shot(old, state.samples[rows]), _log_zero_shot(task, state.samples[rows])
    recent_mix = take_classes((state.prior[rows] - before).T, class_map).T  # 0 for a new class
    prior = np.ascontiguousarray(state.prior[rows][:, class_map]) if reordered else now + recent_mix
    new_index = np.full(old.classes, -1)
    new_index[class_map[class_map >= 0]] = np.flatnonzero(class_map >= 0)
    label = new_index[state.label[rows]]
    remapped.samples[where], remapped.prior[where] = state.samples[rows], prior
    remapped.label[where] = np.where(label < 0, prior.argmax(axis=1), label)
    remapped.confidence[where] = np.where(label < 0, 0, state.confidence[rows])
    remapped.held = len(kept)
    remapped.slot = state.slot if reordered else len(kept) % len(remapped.samples)

    remapped.seen, remapped.moments = state.seen, state.moments.copy()
    if len(kept) < state.held:
        exact = state.samples[kept].astype(np.float64)
        remapped.moments = np.stack([exact.sum(axis=0), (exact * exact).sum(axis=0)])
    remapped.zero_shot_sum = take_classes(state.zero_shot_sum, class_map)
    remapped.zero_shot_sum[class_map < 0] = np.exp(now).sum(axis=0)[class_map < 0]
    remapped.live = state.live.remapped(class_map)
    if reordered:
        remapped.draft, remapped.reference = state.draft.remapped(class_map), state.reference.remapped(class_map)
        remapped.likelihood = state.likelihood.remapped(class_map)
        remapped.sweep_pass, remapped.cursor = state.sweep_pass, state.cursor
    recent = take_classes(state.recent, class_map)
    total = recent.sum()
    remapped.recent = recent if reordered else recent / total if total > 0 else remapped.recent
    remapped.explained, remapped.compared = state.explained, state.compared
    remapped.uneven_odds = state.uneven_odds
    return remapped


def _log_zero_shot(task: Task, rows: Array) -> Array:
    """Return zero-shot's log-probabilities of samples [n, W], [n, K]."""
    products = dots(task.unit_text, np.ascontiguousarray(rows[:, : task.dim]))
    return as_float32(np.log(softmax(np.float32(task.logit_scale) * products) + np.float32(1e-30)))
