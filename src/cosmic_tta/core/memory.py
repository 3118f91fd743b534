"""FeatureMemory: the features that a method keeps of a stream, in one form for all methods."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from cosmic_tta.core.arrays import Array, Ints


def _no_nodes() -> Ints:
    return np.zeros(0, np.int64)


@dataclass(frozen=True, eq=False)
class FeatureMemory:
    """Features that a method keeps, each with its class, and the cliques of their graph where there is one.

    `Method.memories(state)` returns them. Reports and the dashboard show them.

    Args:
        name: Name of the memory within its method.
        features: Kept features, [m, D].
        classes: Class index under which each is kept, [m].
        samples: Number of the sample in the stream, [m]. None if the features have none.
        capacity: Slots per class.
        clique_nodes: Nodes of all cliques, one clique after the other. Empty without a graph.
        clique_sizes: Number of nodes per clique.

    Examples:
        >>> memory = FeatureMemory("positive", np.eye(3, dtype=np.float32), np.array([0, 2, 2]), None, capacity=4)
        >>> memory.of_class(2).shape
        (2, 3)
    """

    name: str
    features: Array
    classes: Ints
    samples: Ints | None
    capacity: int
    clique_nodes: Ints = field(default_factory=_no_nodes)
    clique_sizes: Ints = field(default_factory=_no_nodes)

    def of_class(self, label: int) -> Array:
        """Return the features that are kept under a class."""
        rows: Array = self.features[self.classes == label]
        return rows
