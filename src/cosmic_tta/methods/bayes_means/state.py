"""The state of BayesMeans, and its remapping to other classes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cosmic_tta.core.arrays import Array, Ints, as_float32, dots, softmax, take_classes
from cosmic_tta.core.errors import SnapshotError
from cosmic_tta.core.types import State, Task
from cosmic_tta.methods.bayes_means.policy import DisagreementRate
from cosmic_tta.methods.bayes_means.temporal_correlation import TemporalCorrelation
from cosmic_tta.methods.bayes_means.zero_shot_bias import ZeroShotBias
from cosmic_tta.methods.components.class_statistics import ClassStatistics
from cosmic_tta.methods.components.gaussian_classes import LinearLogLikelihood
from cosmic_tta.methods.components.standardize import Standardizer

IDLE = 4  # passes of a sweep; a sweep that has done them all is over
BLOCK = 16  # kept samples whose labels lie together


@dataclass
class BayesMeansState(State):
    """The kept samples in a ring, the tally that answers, and what a sweep is drafting."""

    clip: Standardizer
    aux: Standardizer | None
    prior: Array  # [M, K] log-probability of each kept sample before any class mean spoke
    label: Array  # [M / 16, K, 16] its soft self-label z; sixteen samples' lie together class by class, to be read so
    sure: Array  # [M] zero-shot's highest probability of each; 0 of one that was shown again
    live: ClassStatistics  # of all samples
    frozen: ClassStatistics  # of those that left the ring
    reference: ClassStatistics  # of a sweep's last whole pass
    clip_likelihood: LinearLogLikelihood  # what that one says, in full trust
    aux_likelihood: LinearLogLikelihood | None
    draft: ClassStatistics  # of a sweep's pass under way
    moment0: float  # sum of the weights behind the spaces' moments
    zero_shot_mass: Array  # [K] sum of zero-shot probabilities
    prior_mass: Array  # [K] sum of exp(prior)
    course: TemporalCorrelation  # whether the stream is correlated
    verdicts: DisagreementRate  # what the class means would say if nothing held them back
    favour: ZeroShotBias | None  # the classes that zero-shot favours, and why; None where that does not matter
    next_sweep: int
    slot: int  # of the ring that the next sample takes
    held: int  # samples in the ring: those before the slot, or all
    sweep: int  # the pass under way; IDLE between sweeps
    cursor: int  # rows of the ring that this pass has done
    relabelled: int  # rows that the last step labelled anew

    def validate(self) -> None:
        """Refuse a sweep that cannot be under way."""
        super().validate()
        room, kept = len(self.prior), self.held
        where = self.slot == kept if kept < room else 0 <= self.slot <= room
        if not (0 <= kept <= min(self.seen, room) and where):
            raise SnapshotError("the saved ring of samples contradicts itself; the file is damaged.")
        if len(self.label) != blocks(len(self.prior)):
            raise SnapshotError("the saved state has samples without a label; the file is damaged.")
        if not (np.isfinite(self.sure).all() and (self.sure >= 0).all() and (self.sure <= 1.001).all()):
            raise SnapshotError("the saved state is surer of samples than one can be; the file is damaged.")
        if not (0 <= self.sweep <= IDLE and 0 <= self.cursor <= kept):
            raise SnapshotError("the saved state is in a sweep that cannot be; the file is damaged.")

    def spaces(self) -> tuple[Standardizer, ...]:
        """The spaces that there are."""
        return (self.clip,) if self.aux is None else (self.clip, self.aux)

    def likelihoods(self) -> tuple[LinearLogLikelihood, ...]:
        """What the reference says in each of them."""
        return (self.clip_likelihood,) if self.aux_likelihood is None else (self.clip_likelihood, self.aux_likelihood)


def remap_classes(state: BayesMeansState, remapped: BayesMeansState, class_map: Ints, *, growing: bool) -> bool:
    """Carry what was learned over to a fresh state of other classes, and say whether they are others at all.

    Args:
        state: what was learned.
        remapped: a fresh state of the new task, which is filled.
        class_map: [K] the place of each new class among the old ones; -1 for one that is new.
        growing: all samples are kept, however many.
    """
    task = remapped.task
    remapped.seen, remapped.moment0, remapped.next_sweep = state.seen, state.moment0, state.next_sweep
    remapped.course = state.course.remapped(class_map)
    remapped.live, remapped.frozen = state.live.remapped(class_map, task), state.frozen.remapped(class_map, task)
    remapped.clip, remapped.aux = state.clip.copy(), None if state.aux is None else state.aux.copy()
    remapped.zero_shot_mass = take_classes(state.zero_shot_mass, class_map)
    remapped.verdicts = state.verdicts.remapped(class_map)
    remapped.favour = None if state.favour is None else state.favour.remapped(class_map)
    remapped.prior_mass = take_classes(state.prior_mass, class_map)
    rows = np.arange(len(state.prior))
    labels = state.label[rows // BLOCK, :, rows % BLOCK]  # [M, K]
    same = len(class_map) == state.task.classes and bool((class_map >= 0).all())
    if same and np.array_equal(task.text, state.task.text[class_map]):
        # The same classes in some order: a sweep under way goes on.
        remapped.slot, remapped.held = state.slot, state.held
        remapped.sweep, remapped.cursor = state.sweep, state.cursor
        remapped.relabelled = state.relabelled
        remapped.reference, remapped.draft = (
            state.reference.remapped(class_map, task),
            state.draft.remapped(class_map, task),
        )
        remapped.clip_likelihood = state.clip_likelihood.remapped(class_map)
        remapped.aux_likelihood = None if state.aux_likelihood is None else state.aux_likelihood.remapped(class_map)
        remapped.prior, remapped.sure = np.ascontiguousarray(state.prior[:, class_map]), state.sure.copy()
        remapped.label = np.ascontiguousarray(state.label[:, class_map])
        return False
    _remap_ring(state, remapped, class_map, labels, growing=growing)
    return True


def _remap_ring(
    state: BayesMeansState, remapped: BayesMeansState, class_map: Ints, labels: Array, *, growing: bool
) -> None:
    """Put the kept samples into a ring for other classes; a sweep labels them anew from the next sample on."""
    task, room = remapped.task, len(state.prior if growing else remapped.prior)
    order = (state.slot - state.held + np.arange(state.held)) % max(len(state.prior), 1)  # the oldest first
    known, new = class_map >= 0, class_map < 0
    label = take_classes(labels[order].T, class_map).T  # [held, K]
    sure = label.sum(axis=1, keepdims=True)
    label = np.where(sure > 1e-6, label / np.maximum(sure, np.float32(1e-6)), known / max(int(known.sum()), 1))
    clip = state.clip.kept[order]
    before, zero_shot = _zero_shot(state.task, clip), _zero_shot(task, clip)
    # What a stream's course said of a sample stays; what zero-shot says is of the classes that there are now.
    course = take_classes((state.prior[order] - np.log(before + np.float32(1e-30))).T, class_map).T
    prior = np.log(zero_shot + np.float32(1e-30)) + course
    sure = np.where(state.sure[order] > 0, zero_shot.max(axis=1), np.float32(0))
    remapped.zero_shot_mass[new] = remapped.verdicts.mass[new] = zero_shot.sum(axis=0)[new]
    remapped.prior_mass[new] = softmax(prior).sum(axis=0)[new] if len(prior) else 0

    gone = max(0, state.held - room)
    for space in remapped.spaces():
        space.reset_draft()
    if gone:  # of a smaller ring: they go on counting, frozen
        left = tuple(space.transform(space.kept[order[:gone]]) for space in remapped.spaces())
        remapped.frozen.flush()
        remapped.frozen.add(as_float32(label[:gone] * (sure[:gone, None] > 0)), left, np.ones(gone, np.float32))
    stays = order[gone:]
    remapped.held = len(stays)
    remapped.slot = remapped.held if growing else remapped.held % room
    for space in remapped.spaces():
        kept = np.zeros((room, space.kept.shape[1]), np.float32)
        kept[: len(stays)] = space.kept[stays]
        space.kept = kept
    remapped.prior = np.zeros((room, task.classes), np.float32)
    remapped.prior[: len(stays)] = prior[gone:]
    remapped.sure = np.zeros(room, np.float32)
    remapped.sure[: len(stays)] = sure[gone:]
    remapped.label = np.zeros((blocks(room), task.classes, BLOCK), np.float32)
    rows = np.arange(len(stays))
    remapped.label[rows // BLOCK, :, rows % BLOCK] = label[gone:]


def _zero_shot(task: Task, rows: Array) -> Array:
    """Return the zero-shot probabilities of samples [n, D], [n, K]."""
    return softmax(np.float32(task.logit_scale) * dots(task.unit_text, rows))


def blocks(items: int) -> int:
    """How many blocks of labels so many samples take."""
    return -(-items // BLOCK)


def grow(state: BayesMeansState) -> None:
    """Make room for one sample more where all are kept: twice as much as there was."""
    if state.held == len(state.prior):
        room = max(64, state.held)
        for space in state.spaces():
            space.kept = np.concatenate([space.kept, np.zeros((room, space.kept.shape[1]), np.float32)])
        classes = state.prior.shape[1]
        state.prior = np.concatenate([state.prior, np.zeros((room, classes), np.float32)])
        state.sure = np.concatenate([state.sure, np.zeros(room, np.float32)])
        more = np.zeros((blocks(len(state.prior)) - len(state.label), classes, BLOCK), np.float32)
        state.label = np.concatenate([state.label, more])
