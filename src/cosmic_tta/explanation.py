"""Why a prediction came out as it did: hyper-classes, inliers, votes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from cosmic_tta.ops import Array, Ints

LEAST_VOTE = 0.005  # what rounds to nothing is not told


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

    def plain(self) -> dict[str, Any]:
        """Return what there is to tell as plain values, ready for JSON."""
        return {name: value for name, value in asdict(self).items() if value}

    def lines(self, pictures: Mapping[int, str], most: int = 3) -> Iterator[str]:
        """Tell it in sentences, the `most` weighty of each kind; `pictures` names samples of the stream."""
        for space, chosen in self.hyper_classes.items():
            near = [f"{{{', '.join(one.members)}}} {one.affinity:.2f}" for one in chosen[:most]]
            yield f"{space}: nearest hyper-classes {'; '.join(near)}{_more(len(chosen), most)}"
            inside = self.inliers.get(space, ())
            yield f"{space}: inlier classes {', '.join(inside[: 3 * most])}{_more(len(inside), 3 * most)}"
        for space, votes_cast in self.votes.items():
            cast = [vote for vote in votes_cast if vote.weight >= LEAST_VOTE]
            told = [f"{pictures.get(vote.sample, f'sample {vote.sample}')} {vote.weight:.2f}" for vote in cast[:most]]
            if told:
                yield f"{space}: samples that spoke for {cast[0].label}: {', '.join(told)}{_more(len(cast), most)}"
        for space, share in self.reliability.items():
            yield f"{space}: reliability {share:.2f}"


def _more(count: int, shown: int) -> str:
    return f", and {count - shown} more" if count > shown else ""
