from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from cosmic_tta.core.errors import ImageError, InputError
from cosmic_tta.data.images.augment import GeneratedViews, RandomViews
from cosmic_tta.features.diffusion_views import generate_views
from cosmic_tta.features.pack import FeaturePack
from tests.support.small_extraction import data, run
from tests.support.tiny import TinyEncoder, image


def fake_variations(given: Image.Image, count: int, seed: int) -> list[Image.Image]:
    """Stand in for a diffusion model: images of the seed."""
    return [image(seed % 1000 + number, given.size) for number in range(count)]


def test_generated_views_come_after_the_others_in_a_pack(tmp_path: Path) -> None:
    dataset = data(tmp_path / "in", each=2)
    folder = tmp_path / "generated"
    assert generate_views(dataset, fake_variations, folder, 3) == 6
    assert generate_views(dataset, fake_variations, folder, 3) == 0  # they are there
    views = GeneratedViews.in_folder(str(folder), [item.key for item in dataset.items])
    run(dataset, tmp_path / "pack", views=RandomViews(2), generated=views)
    pack = FeaturePack.open(tmp_path / "pack")
    assert pack.clip.shape == (6, 5, 8)
    assert pack.provenance["generated views"] == {"folder": str(folder), "count": 3}
    clip, item = TinyEncoder(), dataset.items[4]
    last = Image.open(views.files(item.key)[2])
    np.testing.assert_allclose(pack.clip[4, 4], clip.encode(clip.preprocessing.pixels(last)[None])[0], atol=1e-6)
    assert views.folder_of(item.key) == folder / Path(item.key).with_suffix("")


def test_images_without_their_views_are_refused(tmp_path: Path) -> None:
    dataset = data(tmp_path / "in", each=2)
    keys = [item.key for item in dataset.items]
    with pytest.raises(InputError, match="holds no views; see `cosmic draw-views`"):
        GeneratedViews.in_folder(str(tmp_path / "generated"), keys)
    generate_views(dataset, fake_variations, tmp_path / "generated", 3)
    views = GeneratedViews.in_folder(str(tmp_path / "generated"), keys)
    views.files(keys[3])[0].write_bytes(b"no image")
    done = run(dataset, tmp_path / "pack", views=RandomViews(1), generated=views)
    assert list(done.failed) == [keys[3]]
    views.files(keys[3])[0].unlink()
    with pytest.raises(InputError, match="holds 2 views, the first image has 3"):
        GeneratedViews.in_folder(str(tmp_path / "generated"), keys)
    with pytest.raises(ImageError, match="generated 1 views"):
        generate_views(dataset, lambda *_: [image(0)], tmp_path / "others", 2)
