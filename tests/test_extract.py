from __future__ import annotations

import json
import os
import signal
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_extraction import CLASSES, Stopping, contents, data, run
from tiny import TinyEncoder

from cosmic_tta.datasets.base import Dataset, Item
from cosmic_tta.errors import EncoderError, PackError, PictureError
from cosmic_tta.extract import Progress, _chunk_size
from cosmic_tta.loading import Loader, Recipe
from cosmic_tta.packs import FeaturePack, check_pack
from cosmic_tta.pictures import open_picture
from cosmic_tta.views import Views


def test_a_pack_holds_every_picture(tmp_path: Path) -> None:
    dataset = data(tmp_path / "in")
    seen: list[Progress] = []
    done = run(dataset, tmp_path / "out", watch=seen.append)
    assert (done.pictures, done.failed, done.resumed) == (27, {}, 0)
    assert [(step.done, step.total) for step in seen] == [*((n, 27) for n in range(0, 27, 2)), (27, 27)]
    assert not list(check_pack(tmp_path / "out"))
    assert not (tmp_path / "out.partial").exists()

    pack = FeaturePack.open(tmp_path / "out")
    assert pack.keys == tuple(item.key for item in dataset.items)
    assert pack.labels is not None
    assert pack.labels.tolist() == [0] * 9 + [1] * 9 + [2] * 9
    assert (pack.class_names, pack.logit_scale, pack.clip_model, pack.aux_model) == (
        CLASSES,
        50.0,
        "tiny:clip",
        "tiny:aux",
    )
    assert pack.made["views"]["count"] == 3
    clip, aux = TinyEncoder(), TinyEncoder(5, 12)
    for place in (0, 13, 26):  # each row is what the encoders say of that picture alone
        image = open_picture(dataset.items[place].read())
        views = Views(3).of(image, dataset.items[place].key, clip.preprocessing)
        np.testing.assert_allclose(pack.clip[place], clip.encode(views), atol=1e-6)
        assert pack.aux is not None
        np.testing.assert_allclose(pack.aux[place], aux.encode(aux.preprocessing.pixels(image)[None])[0], atol=1e-6)
    np.testing.assert_allclose(pack.text, clip.encode_texts(["a cat", "a dog", "a owl"]), atol=1e-6)


def test_without_aux_without_labels_in_half_precision(tmp_path: Path) -> None:
    dataset = data(tmp_path / "in", each=2)
    bare = Dataset("bare", "all", CLASSES, tuple(Item(item.key, None, item.read) for item in dataset.items))
    run(bare, tmp_path / "out", aux=None, store="float16", views=Views(1))
    pack = FeaturePack.open(tmp_path / "out")
    assert pack.aux is None
    assert pack.labels is None
    assert pack.clip.dtype == np.float16
    assert pack.clip.shape == (6, 1, 8)
    assert not list(check_pack(tmp_path / "out"))


@pytest.mark.parametrize(("views", "batch"), [(1, 8), (3, 8), (16, 8), (5, 64), (2, 1)])
def test_batches_are_always_full_and_of_one_size(tmp_path: Path, views: int, batch: int) -> None:
    clip, aux = TinyEncoder(), TinyEncoder(5, 12)
    run(data(tmp_path / "in", each=7), tmp_path / "out", clip=clip, aux=aux, views=Views(views), batch=batch)
    assert {shape[0] for shape in clip.batches} == {batch}
    assert len({shape[0] for shape in aux.batches}) == 1
    # No more batches than the pictures need, a chunk at a time.
    size = _chunk_size(batch, views)
    chunks = [min(size, 21 - start) for start in range(0, 21, size)]
    assert len(clip.batches) == sum(-(-pictures * views // batch) for pictures in chunks)


def test_processes_give_the_bytes_that_threads_give(tmp_path: Path) -> None:
    dataset = data(tmp_path / "in")
    run(dataset, tmp_path / "threads")
    run(dataset, tmp_path / "processes", workers=2)
    assert contents(tmp_path / "threads") == contents(tmp_path / "processes")


def test_pictures_that_fail_are_left_out_and_named(tmp_path: Path) -> None:
    dataset = data(tmp_path / "in")
    (tmp_path / "in/cat/0003.jpg").write_bytes(b"")
    (tmp_path / "in/owl/0020.jpg").write_bytes((tmp_path / "in/owl/0020.jpg").read_bytes()[:200])
    (tmp_path / "in/dog/0010.jpg").unlink()
    done = run(dataset, tmp_path / "out")
    assert done.pictures == 24
    assert list(done.failed) == ["cat/0003.jpg", "dog/0010.jpg", "owl/0020.jpg"]
    assert "is empty" in done.failed["cat/0003.jpg"]
    pack = FeaturePack.open(tmp_path / "out")
    assert len(pack) == len(pack.keys) == 24
    assert pack.labels is not None
    assert pack.labels.tolist() == [0] * 8 + [1] * 8 + [2] * 8
    assert not set(done.failed) & set(pack.keys)
    assert pack.made["left out"] == done.failed
    good = run(data(tmp_path / "whole"), tmp_path / "all")
    whole = FeaturePack.open(good.pack)
    np.testing.assert_array_equal(pack.clip[3], whole.clip[4])  # its neighbour's failure does not touch a row


def test_what_cannot_go_well(tmp_path: Path) -> None:
    dataset = data(tmp_path / "in", each=2)

    class Broken(TinyEncoder):
        def encode(self, pixels: Any) -> Any:
            return super().encode(pixels) * np.float32("nan")

    with pytest.raises(EncoderError, match="'tiny:clip' gave NaN.*--dtype float32"):
        run(dataset, tmp_path / "nan", clip=Broken())
    with pytest.raises(PackError, match="float32 or float16; given 'int8'"):
        run(dataset, tmp_path / "int8", store="int8")
    with pytest.raises(PackError, match="no pictures to encode"):
        run(Dataset("none", "test", CLASSES, ()), tmp_path / "none")
    with pytest.raises(PictureError, match="none of 6 pictures could be used; the first one: .*megapixels"):
        run(dataset, tmp_path / "small", max_pixels=10)


def test_a_worker_that_is_killed_is_told(tmp_path: Path) -> None:
    dataset = data(tmp_path / "in", each=2)
    items = (*dataset.items, Item("end.jpg", 0, _end_this_process))
    recipe = Recipe(Views(1), TinyEncoder().preprocessing)
    with Loader(items, recipe, 2, 1) as loader, pytest.raises(PictureError, match="ended from outside.*is kept"):
        list(loader.chunks(range(len(loader))))


def _end_this_process() -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


def test_how_it_was_made_is_said(tmp_path: Path) -> None:
    run(data(tmp_path / "in", each=2), tmp_path / "out", views=Views(4, seed=9, mix=True))
    made = json.loads((tmp_path / "out/pack.json").read_text())["made"]
    assert made["views"] == {"count": 4, "seed": 9, "smallest": 0.08, "move": 0.125, "flip": 0.5, "mix": True}
    assert made["clip"]["weights"] == "tiny:clip-8-16"
    assert made["clip"]["preprocessing"]["size"] == [16, 16]
    assert not any("time" in key or "date" in key for key in made)


def test_chunks_fill_their_batches() -> None:
    for views in range(1, 40):
        size = _chunk_size(64, views)
        assert size >= 8
        assert -(size * views) % 64 < views  # fewer blank rows than one more picture has


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
    assert list(pack.made["left out"]) == list(keys[:2])
    json.loads((tmp_path / "out/pack.json").read_text(encoding="utf-8"))  # text, whatever the names


def test_a_picture_is_read_and_decoded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = data(tmp_path / "in", each=2)
    decoded: list[Any] = []

    def counted(source: Any, **bounds: Any) -> Any:
        decoded.append(source)
        return open_picture(source, **bounds)

    monkeypatch.setattr("cosmic_tta.loading.open_picture", counted)
    run(dataset, tmp_path / "out", views=Views(5))
    assert sorted(map(str, decoded)) == sorted(str(item.read()) for item in dataset.items)
