from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cosmic_tta.core.errors import PackError
from cosmic_tta.data.datasets.base import Dataset
from cosmic_tta.data.images.augment import RandomViews
from cosmic_tta.features.extraction.loader import ImagePipeline
from cosmic_tta.features.extraction.plan import ExtractionRequest, chunk_size
from tests.support.small_extraction import CLASSES, data
from tests.support.tiny import TinyEncoder


def test_chunks_fill_their_batches() -> None:
    for views in range(1, 40):
        size = chunk_size(64, views)
        assert size >= 8
        assert -(size * views) % 64 < views  # fewer blank rows than one more image has


def request(dataset: Dataset, **changes: Any) -> ExtractionRequest:
    clip, aux = TinyEncoder(), TinyEncoder(5, 12, "tiny:aux")
    given: dict[str, Any] = {"aux": aux, "texts": [["a"], ["b"], ["c"]], "batch": 8, "store": "float32"} | changes
    pipeline = ImagePipeline(RandomViews(3), clip.preprocessing, aux.preprocessing)
    return ExtractionRequest(dataset, clip, pipeline=pipeline, **given)


def test_a_plan_covers_every_image_once(tmp_path: Path) -> None:
    dataset = data(tmp_path / "in", each=9)
    plan = request(dataset).plan()
    positions = [position for number in range(plan.chunk_count) for position in plan.positions(number)]
    assert positions == list(range(27))
    assert (plan.clip_fingerprint, plan.aux_fingerprint) == ("tiny:clip-8-16", "tiny:aux-5-12")
    assert request(dataset).shapes() == {"clip": (27, 3, 8), "aux": (27, 5)}
    assert request(dataset, aux=None).shapes() == {"clip": (27, 3, 8)}


def test_the_settings_change_with_all_that_decides_the_features(tmp_path: Path) -> None:
    dataset = data(tmp_path / "in", each=2)
    same = request(dataset).settings
    assert request(dataset).settings == same
    for name, value in {"aux": None, "texts": [["a"], ["b"], ["d"]], "batch": 16, "store": "float16"}.items():
        assert request(dataset, **{name: value}).settings != same
    assert request(replace(dataset, items=dataset.items[::-1])).settings != same


def test_what_cannot_be_stored_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PackError, match="float32 or float16; given 'int8'"):
        request(data(tmp_path / "in", each=1), store="int8")
    with pytest.raises(PackError, match="no images to encode"):
        request(Dataset("none", "test", CLASSES, ()))
