from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from cosmic_tta.core.errors import ParameterError
from cosmic_tta.data.images.augment import ASPECT_RATIOS, DISTORTIONS, RandomViews, augmix, crop_box
from cosmic_tta.data.images.preprocess import Preprocessing
from tests.support.tiny import image

SMALL = Preprocessing((32, 24), 32)


def test_the_first_view_is_the_models_own() -> None:
    views = RandomViews(4, seed=3).of(image(1), "a.jpg", SMALL)
    assert views.shape == (4, 32, 24, 3)
    np.testing.assert_array_equal(views[0], SMALL.pixels(image(1)))
    assert len({view.tobytes() for view in views}) == 4


@pytest.mark.parametrize("mix", [False, True])
def test_a_view_depends_on_seed_key_and_number_alone(mix: bool) -> None:
    many = RandomViews(6, seed=1, mix=mix).of(image(1), "a.jpg", SMALL)
    few = RandomViews(3, seed=1, mix=mix).of(image(1), "a.jpg", SMALL)
    np.testing.assert_array_equal(many[:3], few)
    other_seed = RandomViews(6, seed=2, mix=mix).of(image(1), "a.jpg", SMALL)
    other_key = RandomViews(6, seed=1, mix=mix).of(image(1), "b.jpg", SMALL)
    np.testing.assert_array_equal(many[0], other_seed[0])
    for other in (other_seed, other_key):
        assert all((many[number] != other[number]).any() for number in range(1, 6))


def test_views_are_the_same_on_every_machine() -> None:
    """As they were first recorded."""
    views = RandomViews(seed=7)
    assert views.random("cat/ö.jpg", 2).integers(1 << 30, size=3).tolist() == [248095336, 487191415, 963392274]
    boxes = [crop_box((640, 427), 0.08, views.random("cat/ö.jpg", number)) for number in (1, 2, 3)]
    assert boxes == [(266, 0, 358, 427), (237, 66, 403, 337), (90, 89, 313, 253)]


def test_flips_and_crops_follow_their_settings() -> None:
    left_dark = Image.fromarray(np.tile(np.linspace(0, 255, 60).astype(np.uint8)[None, :, None], (60, 1, 3)))
    for flip, expected in ((0.0, 0), (1.0, 40), (0.5, 20)):
        views = RandomViews(41, flip=flip, smallest=0.5).of(left_dark, "k", SMALL)[1:].astype(int)
        flipped = int((views[:, :, 0, 0].mean(1) > views[:, :, -1, 0].mean(1)).sum())
        assert abs(flipped - expected) <= (8 if flip == 0.5 else 0)


@given(st.integers(1, 400), st.integers(1, 400), st.floats(0.01, 1), st.integers(0, 2**31))
def test_a_crop_lies_in_the_image(width: int, height: int, smallest: float, seed: int) -> None:
    left, top, across, down = crop_box((width, height), smallest, np.random.default_rng(seed))
    assert across >= 1
    assert down >= 1
    assert 0 <= left <= width - across
    assert 0 <= top <= height - down
    if min(across, down) > 30:  # rounding apart
        assert ASPECT_RATIOS[0] * 0.95 < across / down < ASPECT_RATIOS[1] * 1.05


def test_crops_cover_areas_evenly() -> None:
    random = np.random.default_rng(0)
    areas = [box[2] * box[3] / 1e6 for box in (crop_box((1000, 1000), 0.08, random) for _ in range(3000))]
    # Large crops of extreme aspect ratios do not fit and are sampled again, so the mean is below (0.08 + 1) / 2.
    assert 0.4 < np.mean(areas) < 0.56
    assert min(areas) < 0.1
    assert max(areas) > 0.9


def test_mixing_changes_an_image_without_losing_it() -> None:
    plain = image(2, (64, 64))
    mixed = [augmix(plain, np.random.default_rng(seed)).astype(int) for seed in range(30)]
    differences = [abs(one - np.asarray(plain)).mean() for one in mixed]
    assert max(differences) > 5
    assert np.median(differences) < 40


@pytest.mark.parametrize("number", range(len(DISTORTIONS)))
def test_every_distortion_distorts(number: int) -> None:
    plain = Image.fromarray((np.asarray(image(3, (64, 64))) // 2 + 120).astype(np.uint8))
    changed = [DISTORTIONS[number](plain, np.random.default_rng(seed)) for seed in range(4)]
    assert all(one.size == plain.size and one.mode == "RGB" for one in changed)
    assert any((np.asarray(one) != np.asarray(plain)).any() for one in changed)


@pytest.mark.parametrize("size", [(1, 1), (1, 300_000), (300_000, 1), (3, 5), (2000, 1500)])
def test_odd_sizes(size: tuple[int, int]) -> None:
    views = RandomViews(3).of(Image.new("RGB", size, (10, 20, 30)), "k", SMALL)
    assert (views == [10, 20, 30]).all()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [({"count": 0}, "views must be 1 to 512"), ({"seed": -1}, "negative"), ({"smallest": 0.0}, "smallest must be"),
     ({"flip": 1.5}, "flip must be 0 to 1; given 1.5")],
)  # fmt: skip
def test_wrong_settings(wrong: dict[str, float], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        RandomViews(**wrong)  # type: ignore[arg-type]


def test_an_image_of_the_models_own_size_is_moved_and_never_blurred() -> None:
    own, model = image(5, (24, 16)), Preprocessing((16, 24), 16)
    pixels = np.asarray(own)
    colours = {tuple(colour) for colour in pixels.reshape(-1, 3).tolist()}
    views = RandomViews(40).of(own, "key", model)
    assert len({view.tobytes() for view in views}) > 20
    for view in views[1:]:
        assert {tuple(colour) for colour in view.reshape(-1, 3).tolist()} <= colours  # no colour is mixed
        moves = [view, view[:, ::-1]]
        inner = [pixels[2 - y : 14 - y, 3 - x : 21 - x] for y in range(-2, 3) for x in range(-3, 4)]
        assert any(np.array_equal(one[2:14, 3:21], other) for one in moves for other in inner)
    cropped = RandomViews(2, move=0).of(own, "key", model)[1]
    assert not {tuple(colour) for colour in cropped.reshape(-1, 3).tolist()} <= colours
