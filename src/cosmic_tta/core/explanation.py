"""Why a prediction came out as it did: hyper-classes, inlier classes, votes of samples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from cosmic_tta.core.arrays import Array, Ints

MIN_VOTE = 0.005  # smaller votes are not printed; they round to zero


@dataclass(frozen=True)
class HyperClass:
    """A selected hyper-class: the names of its nodes, and its affinity to the image."""

    members: tuple[str, ...]
    affinity: float


@dataclass(frozen=True)
class Vote:
    """The vote of a cached sample: its position in the stream, the class it votes for, and its weight."""

    sample: int
    label: str
    weight: float


def votes(label: str, samples: Ints, weights: Array) -> tuple[Vote, ...]:
    """List the votes of one class's slots, the largest first; sample -1 marks an empty slot."""
    cast = [Vote(int(s), label, float(w)) for s, w in zip(samples, weights, strict=True) if s >= 0]
    return tuple(sorted(cast, key=lambda vote: -vote.weight))


@dataclass(frozen=True)
class Explanation:
    """Why a prediction came out as it did, per space (`css`, `afv`, `clip`, ...).

    A method fills the fields that apply to it; the others stay empty. `Prediction.why` returns it.

    Args:
        hyper_classes: The hyper-classes nearest to the image, per space.
        complete: Whether the hyper-classes are all maximal cliques; False: there were too many, so one per node.
        inliers: The classes in the nearest hyper-classes, per space.
        votes: The samples that voted for the predicted class, per space.
        reliability: Of each space, from 0 to 1.
        soft_counts: Number of samples counted to each class so far, by name.
        bias: What is subtracted from the score of each class, by name.

    >>> why = Explanation(votes={"clip": (Vote(7, "cat", 0.9), Vote(2, "cat", 0.4))})
    >>> list(why.lines({7: "tabby.jpg"}))
    ['clip: samples that voted for cat: tabby.jpg 0.90, sample 2 0.40']
    >>> why.plain()["votes"]["clip"][0]
    {'sample': 7, 'label': 'cat', 'weight': 0.9}
    """

    hyper_classes: dict[str, tuple[HyperClass, ...]] = field(default_factory=dict)
    complete: dict[str, bool] = field(default_factory=dict)
    inliers: dict[str, tuple[str, ...]] = field(default_factory=dict)
    votes: dict[str, tuple[Vote, ...]] = field(default_factory=dict)
    reliability: dict[str, float] = field(default_factory=dict)
    soft_counts: dict[str, float] = field(default_factory=dict)
    bias: dict[str, float] = field(default_factory=dict)

    def plain(self) -> dict[str, Any]:
        """Return the fields that are not empty as plain values, ready for JSON."""
        return {name: value for name, value in asdict(self).items() if value}

    def lines(self, images: Mapping[int, str], limit: int = 3) -> Iterator[str]:
        """Yield the explanation as lines of text, with at most `limit` items of each kind.

        Args:
            images: Names of samples, by their position in the stream.
            limit: How many hyper-classes and votes a line lists; three times as many inlier classes.
        """
        for space, selected in self.hyper_classes.items():
            nearest = [f"{{{', '.join(one.members)}}} {one.affinity:.2f}" for one in selected[:limit]]
            yield f"{space}: nearest hyper-classes {'; '.join(nearest)}{_more(len(selected), limit)}"
            inliers = self.inliers.get(space, ())
            yield f"{space}: inlier classes {', '.join(inliers[: 3 * limit])}{_more(len(inliers), 3 * limit)}"
        for space, all_votes in self.votes.items():
            cast = [vote for vote in all_votes if vote.weight >= MIN_VOTE]
            listed = [f"{images.get(vote.sample, f'sample {vote.sample}')} {vote.weight:.2f}" for vote in cast[:limit]]
            if listed:
                yield f"{space}: samples that voted for {cast[0].label}: {', '.join(listed)}{_more(len(cast), limit)}"
        for space, share in self.reliability.items():
            yield f"{space}: reliability {share:.2f}"


def explain_votes(space: str, label: str, samples: Ints, weights: Array) -> Explanation:
    """Explain a prediction by the votes of one class's slots.

    A method passes `functools.partial(explain_votes, ...)` to `Prediction`, so that predictions can be pickled.

    >>> import numpy as np
    >>> explain_votes("clip", "cat", np.array([3, -1]), np.array([0.5, 0.0], np.float32)).votes
    {'clip': (Vote(sample=3, label='cat', weight=0.5),)}
    """
    return Explanation(votes={space: votes(label, samples, weights)})


def _more(count: int, shown: int) -> str:
    return f", and {count - shown} more" if count > shown else ""
