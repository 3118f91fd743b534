"""The frames of a decoding worker."""

from __future__ import annotations

import io
import json
from typing import Any

import numpy as np
import pytest

from cosmic_tta.data.images.augment import RandomViews
from cosmic_tta.data.images.decode import open_image
from cosmic_tta.data.images.preprocess import Preprocessing
from cosmic_tta.service.decode_worker import LENGTHS, pack_frame, serve
from tests.support.serving import photograph

pytestmark = pytest.mark.pathless
CLIP, AUX = Preprocessing((16, 16), 16), Preprocessing((8, 8), 8)
HEADER = {
    "name": "image 0",
    "key": "k",
    "seconds": 5.0,
    "max_pixels": 10_000,
    "views": {"count": 2, "seed": 0},
    "clip": CLIP.to_dict(),
    "aux": AUX.to_dict(),
}


def answers(*frames: bytes) -> list[tuple[dict[str, Any], bytes]]:
    """The frames that a worker writes for the frames it reads."""
    sink = io.BytesIO()
    serve(io.BytesIO(b"".join(frames)), sink)
    sink.seek(0)
    found = []
    while lengths := sink.read(LENGTHS.size):
        header_size, body_size = LENGTHS.unpack(lengths)
        found.append((json.loads(sink.read(header_size)), sink.read(body_size)))
    return found


def test_a_worker_says_that_it_is_ready_and_answers_each_frame_with_pixels() -> None:
    ready, *decoded = answers(*(pack_frame(HEADER, photograph(number)) for number in (0, 1)))
    assert ready == ({}, b"")
    for number, (header, body) in enumerate(decoded):
        image = open_image(photograph(number))
        views = RandomViews(2, 0).of(image, "k", CLIP)
        assert header == {"clip": list(views.shape)}
        assert body == views.tobytes() + AUX.pixels(image).tobytes()
        assert np.prod(views.shape) + 8 * 8 * 3 == len(body)


def test_an_image_that_cannot_be_decoded_is_a_problem_and_the_worker_continues() -> None:
    _, bad, large, good = answers(
        pack_frame(HEADER, b"no image"),
        pack_frame({**HEADER, "max_pixels": 3}, photograph()),
        pack_frame({**HEADER, "aux": None}, photograph()),
    )
    assert bad[0]["problem"].startswith("image 0")
    assert "problem" in large[0]
    assert len(good[1]) == 2 * 16 * 16 * 3
