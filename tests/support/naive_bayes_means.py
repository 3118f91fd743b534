"""The rule of `bayes_means`, transcribed in double precision with plain lists: no sums are kept, nothing is updated.

It shares no code with the package. Every model is a list of samples with soft labels, and every likelihood is the
posterior predictive density of a Gaussian class, whose mean has a Gaussian prior.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Float = NDArray[np.float64]

TRUST = (0.0, 0.5, 1.0)  # of the class means in the passes of a sweep
FIRST_SWEEP = 20
RECENT_SHARE = 0.2
ONSET = 0.1
MAX_RECENT = 0.98
MIN_MIX = 0.05
MAX_DOUBT = 0.5
MAX_ODDS = 10.0
CORRELATION_PRIOR = 5.0
JUDGED_PRIOR = 20.0
MIN_GAIN = 0.1
SHARE_PRIOR = 3.0
SHARE_WEIGHT = 1.75
LABEL_NOISE = 1.3
RECENT = 50
CHANGE = 4.0


@dataclass(frozen=True)
class Settings:
    """The parameters of the method, and the size of the window in samples."""

    room: int
    sharpness: float = 10.0
    rows_per_step: int = 24
    variance_prior: float = 20.0
    mean_prior: float = 5.0
    temporal: bool = True


class Labelled(NamedTuple):
    """A standardised sample, one vector per space, and its soft label."""

    x: list[Float]
    label: Float


def unit(vector: Float) -> Float:
    """Scale a vector to length one; zero stays zero."""
    length = math.sqrt(float(vector @ vector))
    scaled: Float = vector / length if length > 0 else vector
    return scaled


def softmax(logits: Float) -> Float:
    """Return probabilities."""
    powers = np.exp(logits - logits.max())
    probabilities: Float = powers / powers.sum()
    return probabilities


@dataclass
class Standardisation:
    """The centre and the scale of each space; at first neither moves anything."""

    centre: list[Float]
    scale: list[Float]

    @classmethod
    def of(cls, samples: Sequence[list[Float]], variance_prior: float) -> Standardisation:
        """Fit to samples: dimensions of average variance keep their scale."""
        centre, scale = [], []
        for rows in map(np.array, zip(*samples, strict=True)):
            variance = rows.var(axis=0)
            average = variance.mean()
            shrunk = (len(rows) * variance + variance_prior * average) / (len(rows) + variance_prior)
            centre.append(rows.mean(axis=0))
            scale.append(np.sqrt(max(average, 1e-30) / np.maximum(shrunk, max(average / 1e6, 1e-30))))
        return cls(centre, scale)

    def __call__(self, spaces: list[Float]) -> list[Float]:
        return [unit((row - c) * s) for row, c, s in zip(spaces, self.centre, self.scale, strict=True)]


class GaussianClasses:
    """The classes as Gaussians in one space, after some labelled samples and around a given centre."""

    def __init__(self, rows: Sequence[Float], labels: Sequence[Float], centre: Float, classes: int) -> None:
        self.centre = centre
        self.soft_count, square = np.zeros(classes), np.zeros(classes)
        self.class_sum = np.zeros((classes, len(centre)))
        shrink = math.sqrt(max(1 - float(centre @ centre), 1e-6))
        for row, label in zip(rows, labels, strict=True):
            self.soft_count += label
            square += label * label
            self.class_sum += np.outer(label, (row - centre) / shrink)
        within = float((self.class_sum**2).sum() - square.sum()) + 20 * 0.3
        pairs = float((self.soft_count**2).sum() - square.sum()) + 20
        self.reliability = min(max(LABEL_NOISE * within / pairs, 0.01), 0.9)

    def log_likelihood(self, row: Float, sharpness: float) -> Float:
        """Return log N(x; posterior mean, predictive variance) for each class, up to a constant."""
        rho, x = self.reliability, unit(row - self.centre)
        found = []
        for count, total in zip(self.soft_count, self.class_sum, strict=True):
            precision = 1 / rho + count / (1 - rho)  # of the class mean
            mean, variance = total / (1 - rho) / precision, 1 / precision + 1 - rho
            square = 1 - 2 * float(x @ mean) + float(mean @ mean)  # |x - mean|² of a unit vector x
            found.append(-0.5 * sharpness * (math.log(variance) + square / variance))
        return np.array(found)


def running_means(samples: Sequence[list[Float]], prior: float) -> list[Float]:
    """Return the mean of each space, shrunk to zero by so many samples."""
    return [np.sum(rows, axis=0) / (len(rows) + prior) for rows in zip(*samples, strict=True)]


def with_novel_class(evidence: Float, share: float, weight: float, sharpness: float) -> Float:
    """Mix likelihoods with that of a class that nothing is known of."""
    if share == 0:
        return evidence
    return np.log((1 - share) * np.exp(evidence) + share * math.exp(-0.5 * sharpness * weight))


@dataclass
class Held:
    """A sample of the window: its features as they came, and its log-prior."""

    spaces: list[Float]
    prior: Float


@dataclass
class NaiveBayesMeans:
    """A stream under the rule."""

    settings: Settings
    text: Float  # [K, D]
    logit_scale: float
    widths: tuple[int, ...]
    seen: int = 0
    window: list[Held] = field(default_factory=list)
    slot: int = 0
    live: list[Labelled] = field(default_factory=list)
    draft: list[Labelled] = field(default_factory=list)
    reference: list[GaussianClasses] = field(default_factory=list)
    sweep_pass: int = 0
    cursor: int = 0
    sweeps: int = 0
    explained: float = 0.0
    compared: float = CORRELATION_PRIOR
    uneven_odds: float = 0.0
    changes: int = 0

    def __post_init__(self) -> None:
        classes = len(self.text)
        self.zero_shot_sum, self.recent = np.zeros(classes), np.full(classes, 1 / classes)
        self.text = np.array([unit(row) for row in self.text])
        self.recent_mean = [np.zeros(width) for width in self.widths]
        self.live_scale = self.draft_scale = Standardisation(
            [np.zeros(width) for width in self.widths], [np.ones(width) for width in self.widths]
        )

    def step(self, spaces: list[Float]) -> Float:
        """Score a sample and learn it."""
        settings, classes, room = self.settings, len(self.text), self.settings.room
        zero_shot = softmax(self.logit_scale * (self.text @ spaces[0]))
        log_zero_shot = np.log(zero_shot + 1e-30)
        zero_shot_sum = self.zero_shot_sum * (1 - 1 / room) + zero_shot

        kappa = self.explained / self.compared if settings.temporal else 0.0
        level = max(0.0, (kappa - ONSET) / (1 - ONSET))
        prior = log_zero_shot
        if kappa > ONSET:
            share = min(MAX_RECENT, kappa)
            prior = prior + np.log(classes * share * self.recent + 1 - share)

        x = self.live_scale(spaces)
        labels = [each.label for each in self.live]
        centres = running_means([*(each.x for each in self.live), x], settings.mean_prior)
        found = np.zeros(classes)
        for number, centre in enumerate(centres):
            model = GaussianClasses([each.x[number] for each in self.live], labels, centre, classes)
            found += model.log_likelihood(x[number], settings.sharpness)
        doubt = MAX_DOUBT * level
        evidence = (1 - doubt) * found
        counts = self.soft_count(self.live)
        bias = self.bias(zero_shot_sum, counts, level)
        mixed = with_novel_class(evidence, doubt, (1 - doubt) * len(centres), settings.sharpness)
        scores = softmax(prior - bias + mixed)

        preferred = self.zero_shot_sum + JUDGED_PRIOR / len(self.text)
        self.compare_mixes(log_zero_shot - np.log(preferred) + evidence, counts, scores)
        self.zero_shot_sum = zero_shot_sum
        self.keep(Held(spaces, prior), Labelled(x, scores))
        if kappa <= ONSET and self.has_changed():
            self.forget()
        if self.seen + 1 >= FIRST_SWEEP:
            self.sweep(level)
        self.seen += 1
        return scores

    def soft_count(self, samples: Sequence[Labelled]) -> Float:
        """Return the sum of soft labels."""
        return np.sum([each.label for each in samples], axis=0) if samples else np.zeros(len(self.text))

    def bias(self, zero_shot_sum: Float, counts: Float, level: float) -> Float:
        """Return log q - 1.75·log π, both relative to even classes."""
        classes = len(self.text)
        q = (zero_shot_sum + 1) / (zero_shot_sum.sum() + classes)
        uneven = 1 / (1 + math.exp(-self.uneven_odds))
        pi = uneven * (counts + SHARE_PRIOR) / (counts + SHARE_PRIOR).sum() + (1 - uneven) / classes
        found: Float = (1 - level) * (np.log(classes * q) - SHARE_WEIGHT * np.log(classes * pi))
        return found

    def compare_mixes(self, log_evidence: Float, counts: Float, scores: Float) -> None:
        """Judge the recent mix and the class shares by how well they foresaw the sample."""
        says = np.exp(log_evidence - log_evidence.max())
        expected = counts + JUDGED_PRIOR / len(counts)
        even, shares = says.mean(), (expected / expected.sum()) @ says
        gain = math.log(shares / even) - MIN_GAIN
        self.uneven_odds = min(max(self.uneven_odds + gain, -MAX_ODDS), MAX_ODDS)
        uneven = 1 / (1 + math.exp(-self.uneven_odds))
        kappa = self.explained / self.compared
        recent = max(kappa, MIN_MIX) * (self.recent @ says)
        overall = max(1 - kappa, MIN_MIX) * (uneven * shares + (1 - uneven) * even)
        decay = 1 - 1 / self.settings.room
        self.explained = decay * self.explained + recent / (recent + overall)
        self.compared = decay * self.compared + 1
        self.recent = (1 - RECENT_SHARE) * self.recent + RECENT_SHARE * scores

    def keep(self, held: Held, labelled: Labelled) -> None:
        """Put a sample into the window, in place of the oldest if the window is full."""
        self.live.append(labelled)
        if len(self.window) < self.settings.room:
            self.window.append(held)
        else:
            self.window[self.slot] = held
            if self.slot < self.cursor:  # the pass under way would miss it
                self.draft.append(Labelled(self.draft_scale(held.spaces), labelled.label))
        self.slot = (self.slot + 1) % self.settings.room
        rate = 1 / min(len(self.window), RECENT)
        self.recent_mean = [m + rate * (row - m) for m, row in zip(self.recent_mean, held.spaces, strict=True)]

    def has_changed(self) -> bool:
        """Compare the squared distance of the recent mean from the window's mean with the one that chance makes."""
        if len(self.window) < 3 * RECENT:
            return False
        ratios = []
        for rows, recent in zip(
            zip(*(held.spaces for held in self.window), strict=True), self.recent_mean, strict=True
        ):
            by_chance = np.var(rows, axis=0).sum() / (2 * RECENT - 1)
            ratios.append(((recent - np.mean(rows, axis=0)) ** 2).sum() / by_chance)
        return float(np.mean(ratios)) > CHANGE

    def forget(self) -> None:
        """Keep the last few samples and begin a sweep over them."""
        ring = self.window[self.slot :] + self.window[: self.slot]
        self.window, self.slot = ring[-RECENT:], RECENT % self.settings.room
        self.zero_shot_sum = np.sum([softmax(held.prior) for held in self.window], axis=0)
        self.sweep_pass = self.cursor = 0
        self.changes += 1

    def sweep(self, level: float) -> None:
        """Relabel some samples of the window, one after the other; a step ends with its sweep."""
        settings, classes = self.settings, len(self.text)
        for _ in range(settings.rows_per_step):
            if self.cursor == 0:
                self.draft = []
                counts = self.zero_shot_sum if self.sweep_pass == 0 else self.reference[0].soft_count
                self.pass_offset = self.bias(self.zero_shot_sum, counts, level)
                if self.sweep_pass == 0:
                    rows = [held.spaces for held in self.window]
                    self.draft_scale = Standardisation.of(rows, settings.variance_prior)
            held = self.window[self.cursor]
            x = self.draft_scale(held.spaces)
            logits = held.prior - self.pass_offset
            if self.sweep_pass > 0:
                doubt = MAX_DOUBT * level
                trust = TRUST[self.sweep_pass] * (1 - doubt)
                found = [
                    model.log_likelihood(row, settings.sharpness) for model, row in zip(self.reference, x, strict=True)
                ]
                weight = trust * len(found)
                logits = logits + with_novel_class(trust * np.sum(found, axis=0), doubt, weight, settings.sharpness)
            self.draft.append(Labelled(x, softmax(logits)))
            self.cursor += 1
            if self.cursor < len(self.window):
                continue
            self.cursor, self.sweep_pass = 0, (self.sweep_pass + 1) % len(TRUST)
            if self.sweep_pass == 0:
                self.live, self.live_scale = self.draft, self.draft_scale
                self.sweeps += 1
                return
            labels = [each.label for each in self.draft]
            centres = running_means([each.x for each in self.draft], settings.mean_prior)
            self.reference = [
                GaussianClasses([each.x[number] for each in self.draft], labels, centre, classes)
                for number, centre in enumerate(centres)
            ]
