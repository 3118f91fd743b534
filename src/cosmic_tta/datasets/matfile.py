"""MATLAB files: checked before scipy reads them, which ends the whole process over a damaged one.

The format is that of MATLAB 5 ("Level 5 MAT-file"): a header of 128 bytes, then elements of a tag (type, size) and
data. A matrix is an element that holds elements: flags, dimensions, name, and the values, or a matrix a cell or field.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Mapping
from math import prod
from pathlib import Path
from typing import Any

from cosmic_tta.datasets.files import optional
from cosmic_tta.errors import DatasetError

HEADER = 128
MOST_BYTES = 1 << 28  # of an unpacked element: no published label file comes near
DEEPEST = 16
INT8, INT32, UINT32, MATRIX, COMPRESSED, UTF8 = 1, 5, 6, 14, 15, 16
# Bytes of a value of each type of element.
WIDTHS = {1: 1, 2: 1, 3: 2, 4: 2, 5: 4, 6: 4, 7: 4, 9: 8, 12: 8, 13: 8, 16: 1, 17: 2, 18: 4}
CELL, STRUCT, CHARACTERS, NUMBERS = 1, 2, 4, range(6, 16)  # classes of a matrix
COMPLEX = 0x800

Element = tuple[int, bytes]  # type, data


def read_mat(file: Path) -> Mapping[str, Any]:
    """Read a MATLAB file, structs as dicts."""
    scipy_io = optional("scipy.io", str(file))
    try:
        _check(file.read_bytes())
        told: Mapping[str, Any] = scipy_io.loadmat(file, simplify_cells=True)
    except OSError as error:
        raise DatasetError(f"{str(file)!r} cannot be read: {error.strerror or error}.") from error
    except Exception as error:  # scipy raises whatever its parser trips over
        raise DatasetError(f"{str(file)!r} is damaged: it is no MATLAB file ({error}). Get the file anew.") from error
    return told


def _check(data: bytes) -> None:
    """Raise ValueError unless every element fits into what holds it."""
    orders = {b"IM": "<", b"MI": ">"}
    if data[HEADER - 2 : HEADER] not in orders:
        raise ValueError("not of version 5 to 7")
    order = orders[data[HEADER - 2 : HEADER]]
    for kind, inner in _elements(data[HEADER:], order):
        held = list(_elements(_unpacked(inner), order)) if kind == COMPRESSED else [(kind, inner)]
        if [kind for kind, _ in held] != [MATRIX]:
            raise ValueError("a variable is no matrix")
        _check_matrix(held[0][1], order, DEEPEST)


def _elements(data: bytes, order: str) -> Iterator[Element]:
    place = 0
    while place < len(data):
        if place + 8 > len(data):
            raise ValueError("cut off")
        kind, size = struct.unpack_from(f"{order}II", data, place)
        start, step = place + 8, 8 + size + (-size % 8 if kind != COMPRESSED else 0)
        if kind >> 16:  # up to four bytes of data lie within the tag
            kind, size, start, step = kind & 0xFFFF, kind >> 16, place + 4, 8
        if start + size > len(data) or (step == 8 and size > 4) or kind not in {*WIDTHS, MATRIX, COMPRESSED}:
            raise ValueError("an element does not fit")
        yield kind, data[start : start + size]
        place += step


def _check_matrix(data: bytes, order: str, depth: int) -> None:
    if not data:
        return  # an empty cell
    held = list(_elements(data, order))
    kinds, values = [kind for kind, _ in held], [value for _, value in held]
    if depth == 0 or kinds[:3] != [UINT32, INT32, INT8] or len(values[0]) != 8 or len(values[1]) % 4:
        raise ValueError("a matrix lacks its flags, dimensions or name")
    (flags,) = struct.unpack_from(f"{order}I", values[0])
    dimensions = struct.unpack(f"{order}{len(values[1]) // 4}i", values[1])
    if not 2 <= len(dimensions) <= 8 or min(dimensions) < 0 or prod(dimensions) > MOST_BYTES:
        raise ValueError("a matrix has impossible dimensions")
    sort, count, rest = flags & 0xFF, prod(dimensions), held[3:]
    if sort == STRUCT:
        count, rest = count * _fields(rest, order), rest[2:]
    if sort in (CELL, STRUCT):
        if len(rest) != count or any(kind != MATRIX for kind, _ in rest):
            raise ValueError("a cell or field is missing")
        for _, inner in rest:
            _check_matrix(inner, order, depth - 1)
    elif sort not in (CHARACTERS, *NUMBERS):
        raise ValueError("a variable is neither numbers nor text nor cells nor a struct")
    elif not _counted(rest, count, bool(flags & COMPLEX)):
        raise ValueError("a matrix has not as many values as its dimensions say")


def _fields(held: list[Element], order: str) -> int:
    """Return how many fields a struct has, from the length of a name and all names after another."""
    if [kind for kind, _ in held[:2]] != [INT32, INT8] or len(held[0][1]) != 4:
        raise ValueError("a struct lacks the names of its fields")
    length = int.from_bytes(held[0][1], "little" if order == "<" else "big")
    if not 1 <= length <= 64 or len(held[1][1]) % length:
        raise ValueError("a struct lacks the names of its fields")
    names = held[1][1]
    if any(0 not in names[start : start + length] for start in range(0, len(names), length)):
        raise ValueError("the name of a field has no end")
    return len(names) // length


def _counted(held: list[Element], count: int, pairs: bool) -> bool:
    """Tell whether a matrix holds as many values as it should; an empty one may hold no element."""
    if count == 0 and not any(data for _, data in held):
        return True
    return len(held) == 1 + pairs and all(_holds(kind, data, count) for kind, data in held)


def _holds(kind: int, data: bytes, count: int) -> bool:
    if kind == UTF8:  # a character has one to four bytes
        return count <= len(data) <= 4 * count
    return kind in WIDTHS and len(data) == count * WIDTHS[kind]


def _unpacked(data: bytes) -> bytes:
    stream = zlib.decompressobj()
    unpacked = stream.decompress(data, MOST_BYTES)
    if not stream.eof:
        raise ValueError("cut off, or larger than any label file")
    return unpacked
