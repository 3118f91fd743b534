from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cosmic_tta.core.errors import ImageError
from cosmic_tta.data.datasets.base import Item
from cosmic_tta.data.images.augment import RandomViews
from cosmic_tta.data.images.decode import open_image
from cosmic_tta.features.extraction.loader import ImageLoader, ImagePipeline
from tests.support.small_extraction import data, run
from tests.support.tiny import TinyEncoder


def test_a_worker_that_is_killed_is_reported(tmp_path: Path) -> None:
    dataset = data(tmp_path / "in", each=2)
    items = (*dataset.items, Item("end.jpg", 0, _end_this_process))
    pipeline = ImagePipeline(RandomViews(1), TinyEncoder().preprocessing)
    with ImageLoader(items, pipeline, 2, 1) as loader, pytest.raises(ImageError, match="ended from outside.*are kept"):
        list(loader.chunks(range(len(loader))))


def _end_this_process() -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


def test_an_image_is_read_and_decoded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = data(tmp_path / "in", each=2)
    decoded: list[Any] = []

    def counted(source: Any, **bounds: Any) -> Any:
        decoded.append(source)
        return open_image(source, **bounds)

    monkeypatch.setattr("cosmic_tta.features.extraction.loader.open_image", counted)
    run(dataset, tmp_path / "out", views=RandomViews(5))
    assert sorted(map(str, decoded)) == sorted(str(item.read()) for item in dataset.items)


def test_chunks_come_in_the_order_asked_for_with_failures_left_blank(tmp_path: Path) -> None:
    dataset = data(tmp_path / "in", each=2)
    (tmp_path / "in/cat/0001.jpg").write_bytes(b"no image")
    (tmp_path / "in/dog/0002.jpg").unlink()
    pipeline = ImagePipeline(RandomViews(2), TinyEncoder().preprocessing, TinyEncoder(5, 12).preprocessing)
    with ImageLoader(dataset.items, pipeline, 4, 0) as loader:
        assert len(loader) == 2
        last, first = loader.chunks([1, 0])
    assert (first.number, first.positions, last.positions) == (0, range(4), range(4, 6))
    assert first.clip.shape == last.clip.shape == (4, 2, 16, 16, 3)  # every chunk has the same size
    assert first.aux is not None
    assert first.aux.shape == (4, 12, 12, 3)
    assert sorted(first.problems) == [1, 2]
    assert first.unreadable == {2}  # a damaged image stays damaged; a file may come back
    assert not first.clip[[1, 2]].any()
    assert not last.problems
    np.testing.assert_array_equal(first.clip[0], pipeline.prepare(dataset.items[0]).clip)
