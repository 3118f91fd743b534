"""MATLAB files, checked before scipy reads them: a damaged file can crash scipy's reader and the whole process.

The format is that of MATLAB 5 ("Level 5 MAT-file"): a header of 128 bytes, then elements. An element is a tag (type,
size) and data. A matrix is an element of elements: flags, dimensions, name, then its values or one matrix per cell or
field.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Mapping
from math import prod
from pathlib import Path
from typing import Any

from cosmic_tta.core.errors import DatasetError
from cosmic_tta.data.datasets.files import import_optional

HEADER = 128
MAX_BYTES = 1 << 28  # of a decompressed element; published label files are far smaller
MAX_DEPTH = 16
INT8, INT32, UINT32, MATRIX, COMPRESSED, UTF8 = 1, 5, 6, 14, 15, 16
# Type of an element → bytes per value.
WIDTHS = {1: 1, 2: 1, 3: 2, 4: 2, 5: 4, 6: 4, 7: 4, 9: 8, 12: 8, 13: 8, 16: 1, 17: 2, 18: 4}
CELL, STRUCT, CHARACTERS, NUMBERS = 1, 2, 4, range(6, 16)  # classes of a matrix
COMPLEX = 0x800

Element = tuple[int, bytes]  # type, data


def read_mat(file: Path) -> Mapping[str, Any]:
    """Read a MATLAB file, structs as dicts."""
    scipy_io = import_optional("scipy.io", str(file))
    try:
        _check(file.read_bytes())
        fields: Mapping[str, Any] = scipy_io.loadmat(file, simplify_cells=True)
    except OSError as error:
        raise DatasetError(f"{str(file)!r} cannot be read: {error.strerror or error}.") from error
    except Exception as error:  # scipy raises many kinds of errors
        raise DatasetError(f"{str(file)!r} is damaged: not a MATLAB file ({error}). Download it again.") from error
    return fields


def _check(data: bytes) -> None:
    """Raise ValueError unless every element fits into its parent."""
    orders = {b"IM": "<", b"MI": ">"}
    if data[HEADER - 2 : HEADER] not in orders:
        raise ValueError("not of version 5 to 7")
    order = orders[data[HEADER - 2 : HEADER]]
    for kind, inner in _elements(data[HEADER:], order):
        elements = list(_elements(_decompress(inner), order)) if kind == COMPRESSED else [(kind, inner)]
        if [kind for kind, _ in elements] != [MATRIX]:
            raise ValueError("a variable is not a matrix")
        _check_matrix(elements[0][1], order, MAX_DEPTH)


def _elements(data: bytes, order: str) -> Iterator[Element]:
    offset = 0
    while offset < len(data):
        if offset + 8 > len(data):
            raise ValueError("truncated")
        kind, size = struct.unpack_from(f"{order}II", data, offset)
        start, step = offset + 8, 8 + size + (-size % 8 if kind != COMPRESSED else 0)
        if kind >> 16:  # up to four bytes of data are stored in the tag
            kind, size, start, step = kind & 0xFFFF, kind >> 16, offset + 4, 8
        if start + size > len(data) or (step == 8 and size > 4) or kind not in {*WIDTHS, MATRIX, COMPRESSED}:
            raise ValueError("an element does not fit")
        yield kind, data[start : start + size]
        offset += step


def _check_matrix(data: bytes, order: str, depth: int) -> None:
    if not data:
        return  # an empty cell
    elements = list(_elements(data, order))
    kinds, values = [kind for kind, _ in elements], [value for _, value in elements]
    if depth == 0 or kinds[:3] != [UINT32, INT32, INT8] or len(values[0]) != 8 or len(values[1]) % 4:
        raise ValueError("a matrix lacks its flags, dimensions or name")
    (flags,) = struct.unpack_from(f"{order}I", values[0])
    dimensions = struct.unpack(f"{order}{len(values[1]) // 4}i", values[1])
    if not 2 <= len(dimensions) <= 8 or min(dimensions) < 0 or prod(dimensions) > MAX_BYTES:
        raise ValueError("a matrix has impossible dimensions")
    matrix_class, count, rest = flags & 0xFF, prod(dimensions), elements[3:]
    if matrix_class == STRUCT:
        count, rest = count * _count_fields(rest, order), rest[2:]
    if matrix_class in (CELL, STRUCT):
        if len(rest) != count or any(kind != MATRIX for kind, _ in rest):
            raise ValueError("a cell or field is missing")
        for _, inner in rest:
            _check_matrix(inner, order, depth - 1)
    elif matrix_class not in (CHARACTERS, *NUMBERS):
        raise ValueError("a variable is neither numbers nor text nor cells nor a struct")
    elif not _has_values(rest, count, bool(flags & COMPLEX)):
        raise ValueError("the values of a matrix do not fit its dimensions")


def _count_fields(elements: list[Element], order: str) -> int:
    """Return how many fields a struct has, from the length of a name and the joined names."""
    if [kind for kind, _ in elements[:2]] != [INT32, INT8] or len(elements[0][1]) != 4:
        raise ValueError("a struct lacks the names of its fields")
    length = int.from_bytes(elements[0][1], "little" if order == "<" else "big")
    if not 1 <= length <= 64 or len(elements[1][1]) % length:
        raise ValueError("a struct lacks the names of its fields")
    names = elements[1][1]
    if any(0 not in names[start : start + length] for start in range(0, len(names), length)):
        raise ValueError("the name of a field has no end")
    return len(names) // length


def _has_values(elements: list[Element], count: int, is_complex: bool) -> bool:
    """Return whether a matrix has the number of values that its dimensions say; an empty one may have no element."""
    if count == 0 and not any(data for _, data in elements):
        return True
    return len(elements) == 1 + is_complex and all(_has_length(kind, data, count) for kind, data in elements)


def _has_length(kind: int, data: bytes, count: int) -> bool:
    if kind == UTF8:  # one to four bytes per character
        return count <= len(data) <= 4 * count
    return kind in WIDTHS and len(data) == count * WIDTHS[kind]


def _decompress(data: bytes) -> bytes:
    stream = zlib.decompressobj()
    decompressed = stream.decompress(data, MAX_BYTES)
    if not stream.eof:
        raise ValueError("truncated, or larger than any label file")
    return decompressed
