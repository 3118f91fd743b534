from __future__ import annotations

from dataclasses import replace

import numpy as np

from cosmic_tta.evaluation.streams.stream import StreamRequest
from tests.support.small_stream import LABELS, PACK

ORDER = np.array([7, 3, 3, 0])


def test_by_default_every_step_counts_and_has_the_label_of_its_image() -> None:
    stream = StreamRequest("given", PACK, 5, 0.0).stream(ORDER)
    assert (stream.name, stream.seed, len(stream)) == ("given", 5, 4)
    assert stream.counted.all()
    assert stream.known.all()
    assert stream.labels is not None
    np.testing.assert_array_equal(stream.labels, LABELS[ORDER])
    assert StreamRequest("given", replace(PACK, labels=None), 5, 0.0).stream(ORDER).labels is None


def test_a_kind_may_set_every_field() -> None:
    counted = np.array([True, False, True, True])
    stream = StreamRequest("given", PACK, 5, 0.0).stream(ORDER, counted=counted, labels=None, note="one is not counted")
    assert (stream.labels, stream.note) == (None, "one is not counted")
    np.testing.assert_array_equal(stream.counted, counted)


def test_a_cut_shortens_every_array_of_steps() -> None:
    stream = StreamRequest("given", PACK, 5, 0.0).stream(ORDER, domains=np.array([0, 1, 1, 0]))
    cut = stream.cut(2)
    assert len(cut) == len(cut.counted) == len(cut.known) == 2
    assert cut.labels is not None
    assert cut.domains is not None
    assert (cut.order.tolist(), cut.domains.tolist()) == ([7, 3], [0, 1])
    np.testing.assert_array_equal(cut.labels, LABELS[[7, 3]])
    assert stream.cut(None) is stream.cut(4) is stream
