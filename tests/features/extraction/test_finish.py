from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cosmic_tta.core.errors import PackError
from cosmic_tta.data.datasets.base import Dataset, Item
from cosmic_tta.features.extraction.finish import LEFT_OUT, finish_interrupted
from cosmic_tta.features.pack import FeaturePack
from tests.support.small_extraction import CLASSES, Stopping, data, run


def test_images_that_fail_are_left_out_and_named(tmp_path: Path) -> None:
    dataset = data(tmp_path / "in")
    (tmp_path / "in/cat/0003.jpg").write_bytes(b"")
    (tmp_path / "in/owl/0020.jpg").write_bytes((tmp_path / "in/owl/0020.jpg").read_bytes()[:200])
    (tmp_path / "in/dog/0010.jpg").unlink()
    done = run(dataset, tmp_path / "out")
    assert done.images == 24
    assert list(done.failed) == ["cat/0003.jpg", "dog/0010.jpg", "owl/0020.jpg"]
    assert "is empty" in done.failed["cat/0003.jpg"]
    pack = FeaturePack.open(tmp_path / "out")
    assert len(pack) == len(pack.keys) == 24
    assert pack.labels is not None
    assert pack.labels.tolist() == [0] * 8 + [1] * 8 + [2] * 8
    assert not set(done.failed) & set(pack.keys)
    assert pack.provenance["left out"] == done.failed
    good = run(data(tmp_path / "whole"), tmp_path / "all")
    whole = FeaturePack.open(good.pack)
    np.testing.assert_array_equal(pack.clip[3], whole.clip[4])  # its neighbour's failure does not touch a row


def test_names_that_are_no_text_and_lines_within_names(tmp_path: Path) -> None:
    source = data(tmp_path / "in", each=2)
    whole: Any = source.items[0].read
    broken = partial(bytes, b"x")
    keys = ("bad\udcff.jpg", "u\u2028v\n.jpg", "bad\udcfe.jpg")
    items = tuple(Item(key, 0, read) for key, read in zip(keys, (broken, broken, whole), strict=True))
    dataset = Dataset("caf\udce9", "test", CLASSES, items)
    with pytest.raises(KeyboardInterrupt):
        run(dataset, tmp_path / "out", clip=Stopping(1))
    done = run(dataset, tmp_path / "out")
    assert done.resumed == 2
    assert list(done.failed) == list(keys[:2])
    pack = FeaturePack.open(tmp_path / "out")
    assert pack.keys == keys[2:]
    assert list(pack.provenance["left out"]) == list(keys[:2])
    json.loads((tmp_path / "out/pack.json").read_text(encoding="utf-8"))  # text, whatever the names


def test_a_finished_pack_of_another_run_is_refused(tmp_path: Path) -> None:
    run(data(tmp_path / "in", each=2), tmp_path / "out")
    settings = {
        name: value for name, value in FeaturePack.open(tmp_path / "out").provenance.items() if name != LEFT_OUT
    }
    with pytest.raises(PackError, match="is there already; remove it or choose another folder"):
        finish_interrupted(tmp_path / "out", settings)
    (tmp_path / "out.partial").mkdir()  # a run that was stopped after its pack was written
    with pytest.raises(PackError, match="is there already"):
        finish_interrupted(tmp_path / "out", settings | {"batch": 9})
    assert finish_interrupted(tmp_path / "out", settings) == (6, {})
    assert not (tmp_path / "out.partial").exists()
