from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cosmic_tta.core.errors import EncoderError, ImageError, PackError
from cosmic_tta.data.datasets.base import Dataset, Item
from cosmic_tta.data.images.augment import RandomViews
from cosmic_tta.data.images.decode import open_image
from cosmic_tta.features.extraction.extract import ExtractionProgress
from cosmic_tta.features.pack import FeaturePack, check_pack
from tests.support.small_extraction import CLASSES, contents, data, run
from tests.support.tiny import TinyEncoder


def test_a_pack_holds_every_image(tmp_path: Path) -> None:
    dataset = data(tmp_path / "in")
    steps: list[ExtractionProgress] = []
    done = run(dataset, tmp_path / "out", watch=steps.append)
    assert (done.images, done.failed, done.resumed) == (27, {}, 0)
    assert [(step.done, step.total) for step in steps] == [*((n, 27) for n in range(0, 27, 2)), (27, 27)]
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
    assert pack.provenance["views"]["count"] == 3
    clip, aux = TinyEncoder(), TinyEncoder(5, 12)
    for place in (0, 13, 26):  # each row is what the encoders say of that image alone
        image = open_image(dataset.items[place].read())
        views = RandomViews(3).of(image, dataset.items[place].key, clip.preprocessing)
        np.testing.assert_allclose(pack.clip[place], clip.encode(views), atol=1e-6)
        assert pack.aux is not None
        np.testing.assert_allclose(pack.aux[place], aux.encode(aux.preprocessing.pixels(image)[None])[0], atol=1e-6)
    np.testing.assert_allclose(pack.text, clip.encode_texts(["a cat", "a dog", "a owl"]), atol=1e-6)


def test_without_aux_without_labels_in_half_precision(tmp_path: Path) -> None:
    dataset = data(tmp_path / "in", each=2)
    bare = Dataset("bare", "all", CLASSES, tuple(Item(item.key, None, item.read) for item in dataset.items))
    run(bare, tmp_path / "out", aux=None, store="float16", views=RandomViews(1))
    pack = FeaturePack.open(tmp_path / "out")
    assert pack.aux is None
    assert pack.labels is None
    assert pack.clip.dtype == np.float16
    assert pack.clip.shape == (6, 1, 8)
    assert not list(check_pack(tmp_path / "out"))


def test_processes_give_the_bytes_that_threads_give(tmp_path: Path) -> None:
    dataset = data(tmp_path / "in")
    run(dataset, tmp_path / "threads")
    run(dataset, tmp_path / "processes", workers=2)
    assert contents(tmp_path / "threads") == contents(tmp_path / "processes")


def test_what_cannot_go_well(tmp_path: Path) -> None:
    dataset = data(tmp_path / "in", each=2)

    class Broken(TinyEncoder):
        def encode(self, pixels: Any) -> Any:
            return super().encode(pixels) * np.float32("nan")

    with pytest.raises(EncoderError, match="'tiny:clip' gave NaN.*--dtype float32"):
        run(dataset, tmp_path / "nan", clip=Broken())
    with pytest.raises(PackError, match="float32 or float16; given 'int8'"):
        run(dataset, tmp_path / "int8", store="int8")
    with pytest.raises(PackError, match="no images to encode"):
        run(Dataset("none", "test", CLASSES, ()), tmp_path / "none")
    with pytest.raises(ImageError, match="none of 6 images could be used; the first one: .*megapixels"):
        run(dataset, tmp_path / "small", max_pixels=10)


def test_how_it_was_made_is_said(tmp_path: Path) -> None:
    run(data(tmp_path / "in", each=2), tmp_path / "out", views=RandomViews(4, seed=9, mix=True))
    provenance = json.loads((tmp_path / "out/pack.json").read_text())["provenance"]
    assert provenance["views"] == {"count": 4, "seed": 9, "smallest": 0.08, "move": 0.125, "flip": 0.5, "mix": True}
    assert provenance["clip"]["weights"] == "tiny:clip-8-16"
    assert provenance["clip"]["preprocessing"]["size"] == [16, 16]
    assert not any("time" in key or "date" in key for key in provenance)
