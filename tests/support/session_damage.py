"""Corrupts the files of a session and counts the outcomes; rewrites them as another version would."""

from __future__ import annotations

import json
import random
import struct
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from safetensors.numpy import load
from safetensors.numpy import save as to_bytes

from cosmic_tta.sessions import session_file
from cosmic_tta.sessions.journal.format import (
    CHECKSUM_BYTES,
    SEGMENT_HEAD,
    SEGMENT_MAGIC,
    checksum,
    read_header,
    segments,
    span_at,
)
from tests.support.small_session import Files, contents, outcome, script, undisturbed


def recorded(folder: Path, spec: str = "tda", **how: int) -> tuple[Files, dict[int, str]]:
    """Run the script; return its files and the fingerprint of the session after each event."""
    digests = undisturbed(folder, script(), spec, **{"every": 9, "keep": 3, **how})
    return contents(folder), digests


def last_record(folder: Path) -> tuple[str, int]:
    """Return the last segment that has a record, and where its last record begins."""
    for _, path in reversed(segments(folder)):
        data = memoryview(path.read_bytes())
        at, last = read_header(data).length, None
        while at < len(data):
            last, at = at, span_at(data, at).end
        if last is not None:
            return path.name, last
    raise AssertionError("no record")


def truncations(files: Files, name: str, start: int) -> Iterator[Files]:
    """Yield the files with one of them cut at every byte from an offset on."""
    for length in range(start, len(files[name])):
        yield {**files, name: files[name][:length]}


def flips(files: Files, count: int, seed: int) -> Iterator[Files]:
    """Yield the files with one bit flipped; every fifth time, with a few bits of one file."""
    chance = random.Random(seed)
    names = sorted(files)
    sizes = [len(files[name]) for name in names]
    journals = [name for name in names if name.startswith("journal")]
    for number in range(count):
        name = chance.choices(names, sizes)[0] if number % 2 else chance.choice(journals)
        content = bytearray(files[name])
        for _ in range(1 if number % 5 else chance.randint(2, 6)):
            at = chance.randrange(len(content))
            content[at] ^= 1 << chance.randrange(8)
        yield {**files, name: bytes(content)}


def outcomes(folder: Path, corrupted: Iterator[Files], digests: dict[int, str]) -> Counter[str]:
    """Open each set of files and count the outcomes; a state that never existed fails the test."""
    return Counter(outcome(folder, files, digests) for files in corrupted)


def as_journal_format(segment: bytes, number: int) -> bytes:
    """Return a segment whose header has another format number and a valid checksum."""
    _, size = SEGMENT_HEAD.unpack_from(segment, 0)
    end = SEGMENT_HEAD.size + size
    text = json.dumps(json.loads(segment[SEGMENT_HEAD.size : end]) | {"format": number}).encode()
    body = SEGMENT_HEAD.pack(SEGMENT_MAGIC, len(text)) + text
    return body + checksum(body) + segment[end + CHECKSUM_BYTES :]


def as_session_format(snapshot: bytes, number: int) -> bytes:
    """Return a snapshot whose header has another format number and a valid checksum."""
    (size,) = struct.unpack_from("<Q", snapshot)
    header = json.loads(json.loads(snapshot[8 : 8 + size])["__metadata__"][session_file.HEADER_KEY])
    text, arrays = json.dumps(header | {"format": number}), load(snapshot)
    return to_bytes(arrays, {session_file.HEADER_KEY: text, "digest": session_file.digest(text, arrays)})
