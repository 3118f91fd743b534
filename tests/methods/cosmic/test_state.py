"""The state refuses hyper-classes that are not those of its graphs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cosmic_tta import Cosmic
from cosmic_tta.core.errors import SnapshotError
from cosmic_tta.features.pack import FeaturePack
from cosmic_tta.methods.cosmic.hyperclasses import HyperClasses


def test_hyper_classes_must_cover_their_graph(pack: FeaturePack) -> None:
    state = Cosmic().init(pack.task())
    state.validate()  # nothing was built yet
    Cosmic().step(state, pack.sample(0))
    state.validate()
    assert state.afv is not None
    for space in (state.css, state.afv):
        good = space.hyperclasses
        for bad in (HyperClasses.empty(), replace(good, nodes=good.nodes * 0)):
            space.hyperclasses = bad
            with pytest.raises(SnapshotError, match="do not cover their graph"):
                state.validate()
        space.hyperclasses = good
    state.validate()
