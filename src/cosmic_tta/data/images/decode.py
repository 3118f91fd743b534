"""Decoding of images: checked before decoding, rotated upright, converted to RGB.

Pillow alone would only warn of a decompression bomb, clip 16-bit images to white and ignore the orientation of a
photograph. Here the first is refused and the others are corrected.
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

from cosmic_tta.core.errors import ImageError, UnreadableImageError

MAX_PIXELS = 25_000_000
SUFFIXES = frozenset(
    (".avif", ".bmp", ".gif", ".jpeg", ".jpg", ".jpe", ".jfif", ".png", ".ppm", ".pgm", ".tif", ".tiff", ".webp")
)
# Only these are tried, whatever the suffix of a file: some other formats of Pillow run external programs.
FORMATS = ("AVIF", "BMP", "DIB", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")
DEEP_MODES = ("I", "I;16", "I;16B", "I;16L", "F")  # more than eight bits per channel

_SETTINGS = threading.Lock()  # warnings and Pillow's limit are settings of all threads

Source = str | os.PathLike[str] | bytes


def open_image(source: Source, *, max_pixels: int = MAX_PIXELS, name: str = "") -> Image.Image:
    """Decode an image from a file or from bytes: RGB, upright, the first frame of an animation.

    Transparency is dropped, as in CLIP's own preprocessing.

    Args:
        source: A path, or the bytes of an image file.
        max_pixels: An image with more pixels is refused before it is decoded.
        name: Name of the image in error messages; the path if empty.

    Returns:
        The image in RGB.

    Raises:
        UnreadableImageError: The file cannot be read.
        ImageError: The image is empty, truncated, too large or of an unknown format.

    Examples:
        >>> from cosmic_tta.data import open_source
        >>> open_image(open_source("mini").items[0].read()).size
        (32, 32)
    """
    name = name or ("image" if isinstance(source, bytes) else str(source))
    try:
        data = source if isinstance(source, bytes) else Path(source).read_bytes()
    except OSError as error:
        raise UnreadableImageError(f"{name}: cannot be read: {error.strerror}.") from error
    if not data:
        raise ImageError(f"{name}: is empty (0 bytes).")
    try:
        with _open(data) as image:
            width, height = image.size
            if width * height > max_pixels:
                allowed = f"at most {max_pixels / 1e6:g} megapixels are decoded; see --max-pixels"
                raise ImageError(f"{name}: has {width} x {height} pixels; {allowed}.")
            image.load()
            return as_rgb(image)
    except ImageError:
        raise
    except UnidentifiedImageError as error:
        raise ImageError(f"{name}: is not an image in a known format.") from error
    except Image.DecompressionBombError as error:
        raise ImageError(f"{name}: is refused ({error})") from error
    except Exception as error:  # Pillow's decoders raise many kinds of errors on damaged files
        raise ImageError(f"{name}: is truncated or damaged ({error}).") from error


def as_rgb(image: Image.Image) -> Image.Image:
    """Rotate a decoded image upright and convert it to RGB, whatever its mode."""
    return _eight_bits(_upright(image)).convert("RGB")


def _open(data: bytes) -> Image.Image:
    """Read the header of an image, without Pillow's limit of pixels: the caller checks ours."""
    with _SETTINGS, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        limit, Image.MAX_IMAGE_PIXELS = Image.MAX_IMAGE_PIXELS, None
        try:
            return Image.open(io.BytesIO(data), formats=_formats())
        finally:
            Image.MAX_IMAGE_PIXELS = limit


@cache
def _formats() -> tuple[str, ...]:
    Image.init()
    return tuple(name for name in FORMATS if name in Image.OPEN)  # some versions of Pillow lack AVIF


def _upright(image: Image.Image) -> Image.Image:
    try:
        return ImageOps.exif_transpose(image)
    except Exception:  # many kinds of errors, as above
        return image  # damaged metadata has no orientation


def _eight_bits(image: Image.Image) -> Image.Image:
    """Reduce more than eight bits per channel to eight."""
    if image.mode not in DEEP_MODES:
        return image
    values = np.asarray(image).astype(np.float64)
    values = np.nan_to_num(values, nan=0.0, posinf=0.0, neginf=0.0)
    if image.mode == "F":
        # Floats have no standard range: [0, 1] if they fit into it, else their own.
        low, high = min(0.0, float(values.min())), max(1.0, float(values.max()))
        scaled = (values - low) / (high - low) * 255
    else:
        # 16 bits; a mode-I image whose values fit into eight bits stays as it is.
        scaled = values if values.max() <= 255 and image.mode == "I" else values / 257
    return Image.fromarray(np.clip(np.rint(scaled), 0, 255).astype(np.uint8))
