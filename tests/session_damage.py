"""Spoil the files of a session in every way, and count what becomes of it. For the tests and for `make torture`."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from small_session import Files, contents, outcome, script, undisturbed

from cosmic_tta.records import place_at, read_header, segments


def recorded(folder: Path, spec: str = "tda", **how: int) -> tuple[Files, dict[int, str]]:
    """Run the script; return the files it leaves and the session's fingerprint after each event."""
    digests = undisturbed(folder, script(), spec, **{"every": 9, "keep": 3, **how})
    return contents(folder), digests


def last_record(folder: Path) -> tuple[str, int]:
    """Return the last segment that has a record, and where its last record begins."""
    for _, path in reversed(segments(folder)):
        data = memoryview(path.read_bytes())
        at, last = read_header(data).length, None
        while at < len(data):
            last, at = at, place_at(data, at).end
        if last is not None:
            return path.name, last
    raise AssertionError("no record")


def truncations(files: Files, name: str, start: int) -> Iterator[Files]:
    """Yield the files with one of them cut at every byte from some place on."""
    for length in range(start, len(files[name])):
        yield {**files, name: files[name][:length]}


def flips(files: Files, count: int, seed: int) -> Iterator[Files]:
    """Yield the files with one bit flipped, or in every fifth a few of one file."""
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


def outcomes(folder: Path, spoiled: Iterator[Files], digests: dict[int, str]) -> Counter[str]:
    """Open them all; what never was fails, the rest is counted."""
    return Counter(outcome(folder, files, digests) for files in spoiled)
