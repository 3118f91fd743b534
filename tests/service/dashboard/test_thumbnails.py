"""Thumbnails: found by features, bounded."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient

from cosmic_tta.core.types import Sample
from cosmic_tta.service.dashboard.thumbnails import Thumbnails, fingerprint
from tests.support.serving import (
    CLASSES,
    get_json,
    predict_images,
    rows,
    served,
)

pytestmark = pytest.mark.pathless


def test_thumbnails_are_found_by_features_after_roll_back_forgetting_and_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep = Thumbnails.save

    def slowly(album: Thumbnails, number: int, sample: Sample, pixels: Any) -> None:
        time.sleep(0.05)
        keep(album, number, sample, pixels)

    monkeypatch.setattr(Thumbnails, "save", slowly)  # a response waits for thumbnails that are being saved

    def images(service: TestClient) -> set[int]:
        return {step for one in get_json(service, "streams/s/memory")["classes"] for step in one["images"]}

    with served(tmp_path / "data") as service:
        service.post("/v1/streams", json={"name": "s", "classes": CLASSES, "method": "cosmic"})
        predict_images(service, "s", range(4), source="a")
        made = service.post("/v1/streams/s/snapshots", json={"note": "four"}).json()
        predict_images(service, "s", range(4, 8), source="b")
        assert images(service) == set(range(1, 9))
        service.post("/v1/streams/s/roll-back", json={"snapshot": made["id"]})
        assert images(service) == {1, 2, 3, 4}
        predict_images(service, "s", range(10, 12), source="c")
        late = images(service) - {1, 2, 3, 4}
        assert len(late) == 2
        assert service.post("/v1/streams/s/forget-source", json={"source": "a"}).status_code == 200
        assert images(service) == late
    with served(tmp_path / "data") as service:
        assert images(service) == late
        folder = next((tmp_path / "data").glob("*/thumbnails"))
        assert len(list(folder.iterdir())) == 10
        service.delete("/v1/streams/s")
        assert not folder.exists()


def test_thumbnails_are_bounded_and_used_ones_are_deleted_last(tmp_path: Path) -> None:
    store = Thumbnails(tmp_path, max_count=20)
    clip, pixels = rows(40), np.zeros((64, 64, 3), np.uint8)
    for number, row in enumerate(clip):
        store.save(number, Sample(row[None]), pixels)
    assert store.full
    store.prune(frozenset(fingerprint(row) for row in clip[:5]))
    assert store.steps() == {*range(5), *range(27, 40)}
    assert len(list((tmp_path / "thumbnails").iterdir())) == 18
    assert store.find_steps(clip[:7]) == [0, 1, 2, 3, 4, None, None]
    again = Thumbnails(tmp_path, max_count=20, max_bytes=1)
    assert again.steps() == store.steps()
    again.prune(frozenset())
    assert len(again) == 0
    gone = Thumbnails(tmp_path / "gone")
    gone.save(1, Sample(clip[0][None]), pixels)  # a folder that is no more is not made again
    assert len(gone) == 0
