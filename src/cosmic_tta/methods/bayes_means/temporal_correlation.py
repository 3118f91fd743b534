"""Estimates whether samples of one class follow each other in a stream, and which classes came recently."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import exp, log

import numpy as np

from cosmic_tta.core.arrays import Array, Ints, as_float32, take_classes
from cosmic_tta.core.errors import SnapshotError

MOST = 30.0  # log-odds: bounded, so that a stream which changes is noticed in time


@dataclass
class TemporalCorrelation:
    """Whether the recent class mix or the overall one foresees samples better, and that recent mix."""

    recent: Array  # [K] class mix of the last few samples
    same: float  # samples that followed it ...
    trials: float  # ... out of so many
    odds: float  # log-odds that the stream is correlated at all

    @classmethod
    def start(cls, classes: int, proof: float) -> TemporalCorrelation:
        """Begin with an even mix and some samples' worth of doubt."""
        return cls(np.full(classes, 1 / classes, np.float32), 0.0, max(5.0, classes / 4) if proof else 5.0, 0.0)

    def validate(self) -> None:
        """Refuse counts that no stream leaves behind."""
        if not (0 <= self.same <= self.trials and self.trials > 0 and abs(self.odds) <= MOST):
            raise SnapshotError("the saved state has followed a stream as none can be; the file is damaged.")

    def kappa(self, proof: float) -> float:
        """The share of samples that the recent mix explains; less while it is unproven that it explains any."""
        share = self.same / self.trials
        return share / (1 + exp(-self.odds)) if proof else share

    def foreseen(self, kappa: float) -> Array:
        """What the recent mix foresees of the next sample, in log, against even classes, [K]."""
        share = min(0.98, kappa)
        return as_float32(np.log(np.float32(len(self.recent) * share) * self.recent + np.float32(1 - share)))

    def follow(self, zero_shot: Array, scores: Array, mass: Array, proof: float) -> None:
        """Judge which mix foresaw this sample, then move the recent one: `mass` [K] is of all samples before."""
        classes, total = len(zero_shot), float(mass.sum())
        share = max(self.same / self.trials, 0.05)
        recent = share * float(self.recent @ zero_shot)
        overall = (1 - share) * float((mass + 10) @ zero_shot) / (total + 10 * classes)
        if proof:
            frequencies = float((mass + proof / classes) @ zero_shot) / (total + proof)
            self.odds = min(max(self.odds + log((recent + overall) / frequencies), -MOST), MOST)
        self.same += recent / (recent + overall)
        self.trials += 1
        self.recent = np.float32(0.8) * self.recent + np.float32(0.2) * scores

    def remapped(self, class_map: Ints) -> TemporalCorrelation:
        """Return the course of a stream of other classes."""
        recent = take_classes(self.recent, class_map)
        if len(np.unique(class_map[class_map >= 0])) < len(self.recent):  # what left took its share along
            total = recent.sum()
            recent = as_float32(recent / total) if total > 0 else np.full_like(recent, 1 / len(recent))
        return replace(self, recent=recent)
