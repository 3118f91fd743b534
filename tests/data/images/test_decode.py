from __future__ import annotations

import contextlib
import io
import random
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, features

from cosmic_tta.core.errors import ImageError
from cosmic_tta.data.images.decode import open_image
from tests.support.tiny import image


def saved(image: Image.Image, format: str = "PNG", **options: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, format, **options)
    return file.getvalue()


def png_head(width: int, height: int) -> bytes:
    """A PNG that says it is huge and holds next to nothing."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"\0" * 99)) + chunk(b"IEND", b"")


def test_an_image_is_read_from_a_path_and_from_bytes(tmp_path: Path) -> None:
    data = saved(image(1))
    (tmp_path / "a.png").write_bytes(data)
    for source in (tmp_path / "a.png", str(tmp_path / "a.png"), data):
        read = open_image(source)
        assert read.mode == "RGB"
        np.testing.assert_array_equal(np.asarray(read), np.asarray(image(1)))


def test_a_wrong_suffix_does_not_matter(tmp_path: Path) -> None:
    (tmp_path / "really_png.jpg").write_bytes(saved(image(2)))
    np.testing.assert_array_equal(np.asarray(open_image(tmp_path / "really_png.jpg")), np.asarray(image(2)))


@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_rotates_an_image_upright(orientation: int) -> None:
    upright = image(3, (40, 20))
    stored = {
        1: lambda p: p,
        2: lambda p: p.transpose(Image.Transpose.FLIP_LEFT_RIGHT),
        3: lambda p: p.transpose(Image.Transpose.ROTATE_180),
        4: lambda p: p.transpose(Image.Transpose.FLIP_TOP_BOTTOM),
        5: lambda p: p.transpose(Image.Transpose.TRANSPOSE),
        6: lambda p: p.transpose(Image.Transpose.ROTATE_90),
        7: lambda p: p.transpose(Image.Transpose.TRANSVERSE),
        8: lambda p: p.transpose(Image.Transpose.ROTATE_270),
    }[orientation](upright)
    exif = Image.Exif()
    exif[0x0112] = orientation
    read = open_image(saved(stored, exif=exif))
    np.testing.assert_array_equal(np.asarray(read), np.asarray(upright))


def test_sixteen_bits_keep_their_shades() -> None:
    shades = np.linspace(0, 65535, 256 * 4).reshape(4, 256).astype(np.uint16)
    read = np.asarray(open_image(saved(Image.fromarray(shades))))
    assert abs(read[..., 0] - shades / 257).max() <= 0.5
    np.testing.assert_array_equal(read[..., 0], read[..., 2])
    tiff = np.asarray(open_image(saved(Image.fromarray(shades), "TIFF")))
    np.testing.assert_array_equal(tiff, read)


def test_floats_and_whole_numbers_become_shades() -> None:
    unit = np.linspace(0, 1, 12, dtype=np.float32).reshape(3, 4)
    assert abs(np.asarray(open_image(saved(Image.fromarray(unit), "TIFF")))[..., 1] - unit * 255).max() <= 0.5
    wide = np.linspace(-5, 300, 12, dtype=np.float32).reshape(3, 4)
    read = np.asarray(open_image(saved(Image.fromarray(wide), "TIFF")))[..., 0]
    assert (read.min(), read.max()) == (0, 255)
    whole = np.arange(0, 240, 20, dtype=np.int32).reshape(3, 4)
    np.testing.assert_array_equal(np.asarray(open_image(saved(Image.fromarray(whole), "TIFF")))[..., 0], whole)


def test_cmyk_palette_grey_and_transparent() -> None:
    colourful = image(4)
    cmyk = np.asarray(open_image(saved(colourful.convert("CMYK"), "TIFF"))).astype(int)
    assert abs(cmyk - np.asarray(colourful)).max() <= 1
    palette = colourful.quantize(16)
    np.testing.assert_array_equal(np.asarray(open_image(saved(palette))), np.asarray(palette.convert("RGB")))
    grey = colourful.convert("L")
    np.testing.assert_array_equal(np.asarray(open_image(saved(grey)))[..., 0], np.asarray(grey))
    clear = colourful.copy()
    clear.putalpha(7)
    np.testing.assert_array_equal(np.asarray(open_image(saved(clear))), np.asarray(colourful))
    assert open_image(saved(colourful.convert("1"))).mode == "RGB"


def test_formats_that_hand_a_file_on_are_not_tried() -> None:
    with pytest.raises(ImageError, match="not an image in a known format"):
        open_image(saved(image(1), "EPS"))
    with pytest.raises(ImageError, match="not an image in a known format"):
        open_image(saved(image(1), "PDF"))


def test_an_animation_gives_its_first_frame() -> None:
    frames = [image(5).quantize(8), image(6).quantize(8)]
    read = open_image(saved(frames[0], "GIF", save_all=True, append_images=frames[1:]))
    np.testing.assert_array_equal(np.asarray(read), np.asarray(frames[0].convert("RGB")))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is empty"),
        (b"just words", "not an image in a known format"),
        (saved(image(7), "JPEG")[:300], "truncated or damaged"),
        (saved(image(7))[:80], "truncated or damaged"),
        (png_head(13000, 13000), "13000 x 13000 pixels; at most 25 megapixels"),
        (png_head(60000, 60000), "60000 x 60000 pixels; at most 25 megapixels"),
        (png_head(1, 25_000_001), "25000001 pixels"),
    ],
)
def test_what_cannot_be_used_is_refused(data: bytes, message: str, tmp_path: Path) -> None:
    with pytest.raises(ImageError, match=message):
        open_image(data)
    (tmp_path / "this one.jpg").write_bytes(data)
    with pytest.raises(ImageError, match=f"this one.jpg.*{message}"):
        open_image(tmp_path / "this one.jpg")


def test_a_missing_file_a_folder_and_the_bound(tmp_path: Path) -> None:
    with pytest.raises(ImageError, match="cannot be read: No such file"):
        open_image(tmp_path / "none.jpg")
    with pytest.raises(ImageError, match="cannot be read: Is a directory"):
        open_image(tmp_path)
    assert open_image(saved(Image.new("RGB", (20, 10))), max_pixels=200).size == (20, 10)
    with pytest.raises(ImageError, match="20 x 10 pixels; at most 0.000199 megapixels"):
        open_image(saved(Image.new("RGB", (20, 10))), max_pixels=199)


@pytest.mark.filterwarnings("ignore")  # Pillow's remarks on damaged metadata
@given(st.data())
def test_damaged_bytes_never_raise_anything_else(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(("PNG", "JPEG", "GIF", "TIFF", "WEBP", "BMP")))
    good = bytearray(saved(image(8), kind))
    for _ in range(data.draw(st.integers(1, 6))):
        good[data.draw(st.integers(0, len(good) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(good)))
    for damaged in (bytes(good), bytes(good[:cut])):
        with contextlib.suppress(ImageError):
            assert open_image(damaged).mode == "RGB"


def test_damage_of_any_kind_is_one_kind_of_error() -> None:
    chance = random.Random(0)
    exif = Image.Exif()
    exif[0x112] = 6
    plain = Image.effect_mandelbrot((50, 40), (-2, -1, 1, 1), 20).convert("RGB")
    for kind in ("JPEG", "PNG", "GIF", "WEBP", "BMP", "TIFF", *(["AVIF"] if features.check("avif") else [])):
        stream = io.BytesIO()
        plain.save(stream, kind, **({} if kind in ("GIF", "BMP") else {"exif": exif}))
        for _ in range(150):
            data = bytearray(stream.getvalue())
            for _ in range(chance.choice((1, 4, 16))):
                data[chance.randrange(min(len(data), 400))] = chance.randrange(256)
            with contextlib.suppress(ImageError):
                assert open_image(bytes(data)).mode == "RGB"


def test_our_bound_counts_not_that_of_pillow() -> None:
    stream = io.BytesIO()
    Image.new("1", (20_000, 10_000)).save(stream, "PNG")
    with pytest.raises(ImageError, match="20000 x 10000 pixels; at most 25 megapixels"):
        open_image(stream.getvalue())
    with pytest.raises(Image.DecompressionBombError):
        Image.open(stream)  # a user's own images keep to Pillow's
