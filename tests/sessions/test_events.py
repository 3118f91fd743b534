from __future__ import annotations

import numpy as np

from cosmic_tta import Sample
from cosmic_tta.sessions import events


def test_a_sample_becomes_an_event() -> None:
    clip, aux = np.eye(2, 3, dtype=np.float32), np.eye(1, 4, dtype=np.float32)[0]
    record = events.sample_record(events.STEP, Sample(clip, aux), "door", None)
    assert (record.kind, record.meta) == ("step", {"source": "door"})
    assert {name: array.tolist() for name, array in record.arrays.items()} == {
        "clip": clip.tolist(),
        "aux": aux.tolist(),
    }
    plain = events.sample_record(events.PAUSED_STEP, Sample(clip), None, "image 3")
    assert (plain.kind, plain.meta, list(plain.arrays)) == ("paused_step", {"tag": "image 3"}, ["clip"])


def test_events_that_rebuild_the_state_also_replace_it() -> None:
    assert set(events.REBUILD_EVENTS) < set(events.REPLACE_EVENTS)
    assert not set(events.SAMPLE_EVENTS) & set(events.REPLACE_EVENTS)
