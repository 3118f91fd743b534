"""Images of every format, files made to do harm, and images that are corrupted at random."""

from __future__ import annotations

import io
import random
import struct
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from PIL import Image

SIZES = ((64, 48), (7, 130), (33, 33))
FORMATS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("PNG", {}),
    ("JPEG", {"quality": 80}),
    ("JPEG", {"progressive": True}),
    ("GIF", {}),
    ("WEBP", {}),
    ("BMP", {}),
    ("TIFF", {}),
    ("TIFF", {"compression": "tiff_lzw"}),
    ("PPM", {}),
)


def valid_images() -> list[tuple[str, bytes]]:
    """Readable images of every format and of unusual modes."""
    rng = np.random.default_rng(0)
    images = []
    for number, (name, options) in enumerate(FORMATS):
        width, height = SIZES[number % len(SIZES)]
        pixels = rng.integers(256, size=(height, width, 3), dtype=np.uint8)
        images.append((f"{name} {number}", encoded_image(Image.fromarray(pixels), name, **options)))
    grey = Image.fromarray(rng.integers(256, size=(20, 30), dtype=np.uint8))
    images += [(f"PNG {mode}", encoded_image(grey.convert(mode), "PNG")) for mode in ("1", "L", "LA", "P", "RGBA")]
    images.append(("PNG I;16", encoded_image(Image.fromarray(np.full((9, 9), 40_000, np.uint16)), "PNG")))
    images.append(("JPEG CMYK", encoded_image(grey.convert("CMYK"), "JPEG")))
    frames = [grey.convert("P"), grey.rotate(90).convert("P")]
    images.append(("GIF animated", encoded_image(frames[0], "GIF", save_all=True, append_images=frames[1:])))
    return images


def encoded_image(image: Image.Image, name: str, **options: Any) -> bytes:
    """An image as a file."""
    file = io.BytesIO()
    image.save(file, name, **options)
    return file.getvalue()


def png(width: int, height: int, *, bits: int = 8, colour: int = 2, data: bytes = b"\x00") -> bytes:
    """A PNG with any header values and valid checksums."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    head = struct.pack(">IIBBBBB", width, height, bits, colour, 0, 0, 0)
    body = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(data, 9)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


def hostile_files() -> list[tuple[str, bytes]]:
    """Files made to do harm: decompression bombs, false sizes, texts, empty files."""
    odd = [
        ("nothing", b""),
        ("one byte", b"\x00"),
        ("zeros", bytes(5000)),
        ("text", b"This is no image at all.\n" * 20),
        ("HTML", b"<html><script>alert(1)</script></html>"),
        ("SVG", b'<svg xmlns="http://www.w3.org/2000/svg"><image href="file:///etc/passwd"/></svg>'),
        ("PostScript", b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n(/etc/passwd) (r) file\n"),
        ("PDF", b"%PDF-1.4\n1 0 obj\n<<>>\nendobj\n"),
        ("ZIP", b"PK\x03\x04" + bytes(100)),
        ("a bomb of 13000 squared", png(13_000, 13_000, bits=1, colour=0, data=bytes(13_000 * 1626))),
        ("a bomb of 5000 squared in RGBA", png(5001, 5000, colour=6, data=bytes(100_000))),
        ("no width", png(0, 10)),
        ("no height", png(10, 0)),
        ("a size of billions", png(2**31 - 1, 2**31 - 1)),
        ("a size past all", png(2**32 - 1, 1)),
        ("a long line", png(25_000_001, 1)),
        ("unknown bits", png(10, 10, bits=3)),
        ("unknown colour", png(10, 10, colour=5)),
        ("too little data", png(100, 100, data=bytes(10))),
        ("too much data", png(4, 4, data=bytes(1_000_000))),
        ("a BMP of billions", b"BM" + struct.pack("<IHHIIiiHHI", 54, 0, 0, 54, 40, 2**30, 2**30, 1, 24, 0) + bytes(40)),
        ("a GIF of 65535 squared", b"GIF89a" + struct.pack("<HHBBB", 65535, 65535, 0, 0, 0) + b",\x00" * 20),
        ("a PPM of millions", b"P6 99999 99999 255\n" + bytes(100)),
        ("a PPM of words", b"P6 a b c\n"),
        ("a head of JPEG", b"\xff\xd8\xff\xe0"),
        ("a head of TIFF", b"II*\x00\x08\x00\x00\x00"),
        ("a TIFF that loops", b"II*\x00\x08\x00\x00\x00\x00\x00\x08\x00\x00\x00"),
        ("a head of WEBP", b"RIFF\x24\x00\x00\x00WEBPVP8 "),
    ]
    for _, valid in valid_images():
        odd.append((f"half of {len(valid)} bytes", valid[: len(valid) // 2]))
        odd.append((f"the wrong head on {len(valid)} bytes", b"\x89PNG\r\n\x1a\n" + valid[8:]))
        odd.append((f"a head missing from {len(valid)} bytes", valid[16:]))
    return odd


def corrupted_images(count: int, seed: int = 0) -> Iterator[tuple[str, bytes]]:
    """Valid images with random damage: bytes changed, removed or repeated, files truncated or spliced."""
    rng = random.Random(seed)
    valid = [data for _, data in valid_images()]
    for number in range(count):
        data = bytearray(rng.choice(valid))
        how = rng.choice(
            (_change_bytes, _change_bytes, _change_header, _truncate, _remove_bytes, _repeat_bytes, _splice)
        )
        how(data, rng, valid)
        yield f"{how.__name__[1:]} {number}", bytes(data)


def _change_bytes(data: bytearray, rng: random.Random, others: Sequence[bytes]) -> None:
    for _ in range(rng.choice((1, 3, 20, 200))):
        data[rng.randrange(len(data))] = rng.randrange(256)


def _change_header(data: bytearray, rng: random.Random, others: Sequence[bytes]) -> None:
    for _ in range(rng.choice((1, 2, 4))):
        data[rng.randrange(min(60, len(data)))] = rng.choice((0, 1, 127, 128, 255))


def _truncate(data: bytearray, rng: random.Random, _: Sequence[bytes]) -> None:
    del data[rng.randrange(len(data)) :]


def _remove_bytes(data: bytearray, rng: random.Random, _: Sequence[bytes]) -> None:
    start = rng.randrange(len(data))
    del data[start : start + rng.randrange(1, 50)]


def _repeat_bytes(data: bytearray, rng: random.Random, _: Sequence[bytes]) -> None:
    start = rng.randrange(len(data))
    data[start:start] = data[start : start + rng.randrange(1, 500)] * rng.choice((1, 10))


def _splice(data: bytearray, rng: random.Random, valid: Sequence[bytes]) -> None:
    other = rng.choice(valid)
    start = rng.randrange(min(len(data), len(other)))
    data[start:] = other[start:]


DAMAGES = (_change_bytes, _change_bytes, _change_header, _truncate, _remove_bytes, _repeat_bytes, _splice)
