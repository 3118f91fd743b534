"""Pictures as they come: checked before decoding, turned upright, in RGB.

Pillow alone would warn of a decompression bomb and decode it, clip 16-bit pictures to white and leave a
photograph lying on its side; here each is refused or put right.
"""

from __future__ import annotations

import io
import os
import threading
import warnings
from functools import cache
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from cosmic_tta.errors import PictureError, UnreadableError

MAX_PIXELS = 25_000_000
SUFFIXES = frozenset(
    (".avif", ".bmp", ".gif", ".jpeg", ".jpg", ".jpe", ".jfif", ".png", ".ppm", ".pgm", ".tif", ".tiff", ".webp")
)
# Only these are tried, whatever a file is called: some of Pillow's others hand a file on to programs outside.
FORMATS = ("AVIF", "BMP", "DIB", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")
DEEP_MODES = ("I", "I;16", "I;16B", "I;16L", "F")  # more than eight bits a channel

_SETTINGS = threading.Lock()  # warnings and Pillow's own bound are settings of all threads

Source = str | os.PathLike[str] | bytes


def open_picture(source: Source, *, max_pixels: int = MAX_PIXELS, name: str = "") -> Image.Image:
    """Decode a picture from a file or from bytes: RGB, upright, the first frame of an animation.

    Raises PictureError, before anything is decoded, for a picture of more than `max_pixels` pixels; and for one
    that is empty, truncated or of an unknown format; `name` is what the message calls it. Transparency is dropped, as
    CLIP's own preprocessing does.
    """
    name = name or ("picture" if isinstance(source, bytes) else str(source))
    try:
        data = source if isinstance(source, bytes) else Path(source).read_bytes()
    except OSError as error:
        raise UnreadableError(f"{name}: cannot be read: {error.strerror}.") from error
    if not data:
        raise PictureError(f"{name}: is empty (0 bytes).")
    try:
        with _open(data) as picture:
            width, height = picture.size
            if width * height > max_pixels:
                allowed = f"at most {max_pixels / 1e6:g} megapixels are decoded; see --max-pixels"
                raise PictureError(f"{name}: has {width} x {height} pixels; {allowed}.")
            picture.load()
            return as_rgb(picture)
    except PictureError:
        raise
    except UnidentifiedImageError as error:
        raise PictureError(f"{name}: is no picture in a known format.") from error
    except Image.DecompressionBombError as error:
        raise PictureError(f"{name}: is refused ({error})") from error
    except Exception as error:  # Pillow's decoders raise any kind on damaged files, RuntimeError and struct.error too
        raise PictureError(f"{name}: is truncated or damaged ({error}).") from error


def as_rgb(picture: Image.Image) -> Image.Image:
    """Turn a decoded picture upright and into RGB, whatever its mode."""
    return _eight_bits(_upright(picture)).convert("RGB")


def _open(data: bytes) -> Image.Image:
    """Read a picture's head. Pillow's bound against bombs is not for us: the size is checked next, by one of ours."""
    with _SETTINGS, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        bound, Image.MAX_IMAGE_PIXELS = Image.MAX_IMAGE_PIXELS, None
        try:
            return Image.open(io.BytesIO(data), formats=_formats())
        finally:
            Image.MAX_IMAGE_PIXELS = bound


@cache
def _formats() -> tuple[str, ...]:
    Image.init()
    return tuple(name for name in FORMATS if name in Image.OPEN)  # not every Pillow knows AVIF


def _upright(picture: Image.Image) -> Image.Image:
    try:
        return ImageOps.exif_transpose(picture)
    except Exception:  # any kind, as above
        return picture  # metadata that cannot be read says nothing about the orientation


def _eight_bits(picture: Image.Image) -> Image.Image:
    """Scale more than eight bits a channel down to eight."""
    if picture.mode not in DEEP_MODES:
        return picture
    values = np.asarray(picture).astype(np.float64)
    values = np.nan_to_num(values, nan=0.0, posinf=0.0, neginf=0.0)
    if picture.mode == "F":
        # Floats have no agreed range: [0, 1] where they fit, else their own.
        low, high = min(0.0, float(values.min())), max(1.0, float(values.max()))
        scaled = (values - low) / (high - low) * 255
    else:
        # 16 bits; a mode-I picture with eight bits' worth of values stays as it is.
        scaled = values if values.max() <= 255 and picture.mode == "I" else values / 257
    return Image.fromarray(np.clip(np.rint(scaled), 0, 255).astype(np.uint8))
