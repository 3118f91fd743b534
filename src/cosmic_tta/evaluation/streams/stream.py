"""An evaluation stream: the images of one evaluation in order of arrival, with the labels that judge the answers."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from cosmic_tta.core.arrays import Bools, Ints
from cosmic_tta.features.pack import FeaturePack

UNKNOWN = -1  # the label of an image whose class is not in the task


@dataclass(frozen=True, eq=False)
class EvaluationStream:
    """The images of one evaluation, in order of arrival.

    Some kinds of streams derive another pack: `open-set` removes classes, `mixed` makes a second domain. So `order`
    indexes `pack`, and `labels` index the classes of that pack. Only the evaluator reads labels; a method never does.

    Args:
        name: The name that made the stream, such as `dirichlet:0.1`.
        seed: The seed that made the stream.
        pack: The features, derived where the kind asks for it.
        order: The row of the pack at each step, [n].
        counted: Whether accuracy counts the step, [n].
        known: Whether the true class is in the task, [n].
        labels: The true class of each step, UNKNOWN where it is not in the task, [n]; None without labels.
        domains: The domain of each step, [n]; None where there is only one.
        note: What a reader of the result must know.

    Example:
        >>> from cosmic_tta.evaluation import make_stream
        >>> from cosmic_tta.features.synthetic import superclass_pack
        >>> stream = make_stream("shuffle", superclass_pack(images=20), seed=1)
        >>> len(stream), len(stream.cut(5))
        (20, 5)
    """

    name: str
    seed: int
    pack: FeaturePack
    order: Ints
    counted: Bools
    known: Bools
    labels: Ints | None = None
    domains: Ints | None = None
    note: str = ""

    def __len__(self) -> int:
        return len(self.order)

    def cut(self, limit: int | None) -> EvaluationStream:
        """Return the first `limit` steps; None keeps all."""
        if limit is None or limit >= len(self):
            return self
        per_step = ("order", "counted", "known", "labels", "domains")
        kept = {name: None if getattr(self, name) is None else getattr(self, name)[:limit] for name in per_step}
        return replace(self, **kept)  # type: ignore[arg-type]


@dataclass(frozen=True)
class StreamRequest:
    """The input of a stream function: a pack, a seed and the value of the kind's parameter."""

    name: str
    pack: FeaturePack
    seed: int
    value: float

    @property
    def labels(self) -> Ints:
        """The labels of the pack. The registry refuses packs without labels for the kinds that need them."""
        assert self.pack.labels is not None
        return np.asarray(self.pack.labels)

    def stream(self, order: Ints, **fields: object) -> EvaluationStream:
        """Make the stream of an order. By default every step is counted and every class is known."""
        every = np.ones(len(order), bool)
        chosen = {"counted": every, "known": every, "pack": self.pack, **fields}
        if "labels" not in chosen and self.pack.labels is not None:
            chosen["labels"] = self.labels[order]
        return EvaluationStream(self.name, self.seed, order=order, **chosen)  # type: ignore[arg-type]
