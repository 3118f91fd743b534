"""Why a prediction came out as it did: hyper-classes, inliers, votes."""

from __future__ import annotations

from dataclasses import dataclass, field

from cosmic_tta.ops import Array, Ints


@dataclass(frozen=True)
class HyperClass:
    """A selected hyper-class: its nodes by name, and how near it is to the image."""

    members: tuple[str, ...]
    affinity: float


@dataclass(frozen=True)
class Vote:
    """A kept sample's say: which sample of the stream, for which class, how much."""

    sample: int
    label: str
    weight: float


def votes(label: str, samples: Ints, weights: Array) -> tuple[Vote, ...]:
    """List the votes of one class's slots, the weightiest first; sample -1 marks an empty slot."""
    cast = [Vote(int(s), label, float(w)) for s, w in zip(samples, weights, strict=True) if s >= 0]
    return tuple(sorted(cast, key=lambda vote: -vote.weight))


@dataclass(frozen=True)
class Explanation:
    """Why a prediction came out as it did, space by space (`css`, `afv`, `clip`, ...)."""

    hyper_classes: dict[str, tuple[HyperClass, ...]] = field(default_factory=dict)
    complete: dict[str, bool] = field(default_factory=dict)  # False: too many cliques, one a node stands for them
    inliers: dict[str, tuple[str, ...]] = field(default_factory=dict)
    votes: dict[str, tuple[Vote, ...]] = field(default_factory=dict)
    reliability: dict[str, float] = field(default_factory=dict)  # of each space, from 0 to 1
    class_mass: dict[str, float] = field(default_factory=dict)  # samples counted to each class so far
    bias: dict[str, float] = field(default_factory=dict)  # what is taken from each class's score
