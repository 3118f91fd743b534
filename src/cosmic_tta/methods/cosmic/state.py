"""What COSMIC has learned from one stream."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cosmic_tta.core.errors import SnapshotError
from cosmic_tta.core.types import State
from cosmic_tta.methods.cosmic.feature_space import GraphSpace
from cosmic_tta.methods.cosmic.fusion import AuxTrust


@dataclass
class CosmicState(State):
    """Both feature spaces, and how far the auxiliary one is trusted."""

    css: GraphSpace
    afv: GraphSpace | None  # None: a stream without auxiliary features
    aux_trust: AuxTrust | None = None  # None: full trust

    def validate(self) -> None:
        """Refuse hyper-classes that do not cover the nodes of their graph."""
        super().validate()
        if self.aux_trust is not None:
            self.aux_trust.validate()
        for space, nodes in ((self.css, 2 * self.task.classes), (self.afv, self.task.classes)):
            if space is None or (self.seen == 0 and not len(space.hyperclasses)):
                continue
            if not np.array_equal(np.unique(space.hyperclasses.nodes), np.arange(nodes)):
                raise SnapshotError("the saved hyper-classes do not cover their graph; the file is damaged.")
