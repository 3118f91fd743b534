"""Spoil the files of sessions in every way, and count what becomes of them.

    python tools/spoil_sessions.py [--flips 10000] [--seed S]

The journal is cut at every byte of its last record, the newest snapshot at every byte; then bits are flipped. A
session must come back as a prefix of what was, or be refused; a state that never was ends this with an error.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from itertools import islice
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from session_damage import flips, last_record, outcomes, recorded, truncations
from small_session import FaultyOs, faulty_disk, in_memory

from cosmic_tta.errors import SnapshotError
from cosmic_tta.moments import parse, snapshot_numbers, snapshot_path

STRIDE = 40


def refused(content: bytes) -> int:
    """Cut a snapshot at every byte; return how often it was refused, which must be always."""
    for length in range(len(content)):
        try:
            parse(content[:length], "it")
        except SnapshotError:
            continue
        sys.exit(f"a snapshot of {len(content)} bytes cut at {length} was taken for whole")
    return len(content)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--flips", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=None)
    given = parser.parse_args()
    seed = given.seed if given.seed is not None else random.SystemRandom().randrange(1 << 30)
    specs = ("tda", "bayes_means", "cosmic")
    with faulty_disk(FaultyOs(at=0)), in_memory("spoil-") as root:  # nothing fails, and nobody waits for the disk
        for number, spec in enumerate(specs):
            folder, began = Path(root) / spec, time.monotonic()
            files, digests = recorded(folder, spec)
            name, start = last_record(folder)
            newest = snapshot_path(folder, snapshot_numbers(folder)[0]).name
            work = Path(root) / f"{spec} spoiled"
            share = given.flips // len(specs) + (number < given.flips % len(specs))
            kinds = {
                f"{name} cut at every byte of its last record": truncations(files, name, start),
                f"{newest} cut at every {STRIDE}th byte": islice(truncations(files, newest, 0), 0, None, STRIDE),
                f"{share} times bits flipped": flips(files, share, seed + number),
            }
            print(f"{spec}: {newest} cut at every byte: {refused(files[newest])} refused", flush=True)
            for kind, spoiled in kinds.items():
                found = outcomes(work, spoiled, digests)
                told = ", ".join(f"{count} {word}" for word, count in sorted(found.items()))
                print(f"{spec}: {kind}: {told}; {time.monotonic() - began:.0f} s (seed {seed})", flush=True)
    print("no state that never was")


if __name__ == "__main__":
    main()
