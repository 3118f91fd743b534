"""Corrupt the files of sessions, and count the outcomes.

    python tools/corrupt_sessions.py [--flips 10000] [--seed S]

The journal is cut at every byte of its last record, and the newest snapshot at every byte. Then bits are flipped. A
session must come back as a prefix of its events or be refused. A state that never existed ends this with an error.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from itertools import islice
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from tests.support.session_damage import flips, last_record, outcomes, recorded, truncations
from tests.support.small_session import FaultyOs, faulty_disk, in_memory

from cosmic_tta.core.errors import SnapshotError
from cosmic_tta.sessions.session_file import parse, snapshot_numbers, snapshot_path

METHODS = ("tda", "bayes_means", "cosmic")
STRIDE = 40  # bytes between two cuts of a snapshot with which a session is opened


def count_refusals(content: bytes) -> int:
    """Cut a snapshot at every byte; return how often it was refused, which must be always."""
    for length in range(len(content)):
        try:
            parse(content[:length], "it")
        except SnapshotError:
            continue
        sys.exit(f"a snapshot of {len(content)} bytes, cut at {length}, was accepted")
    return len(content)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--flips", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=None)
    arguments = parser.parse_args()
    seed = arguments.seed if arguments.seed is not None else random.SystemRandom().randrange(1 << 30)
    with faulty_disk(FaultyOs(at=0)), in_memory("corrupt-") as root:  # no call fails, and no sync waits for a disk
        for number, spec in enumerate(METHODS):
            folder, began = Path(root) / spec, time.monotonic()
            files, digests = recorded(folder, spec)
            journal, start = last_record(folder)
            snapshot = snapshot_path(folder, snapshot_numbers(folder)[0]).name
            share = arguments.flips // len(METHODS) + (number < arguments.flips % len(METHODS))
            kinds = {
                f"{journal} cut at every byte of its last record": truncations(files, journal, start),
                f"{snapshot} cut at every {STRIDE}th byte": islice(truncations(files, snapshot, 0), 0, None, STRIDE),
                f"bits flipped {share} times": flips(files, share, seed + number),
            }
            print(f"{spec}: {snapshot} cut at every byte: {count_refusals(files[snapshot])} refused", flush=True)
            for kind, corrupted in kinds.items():
                found = outcomes(Path(root) / f"{spec} corrupted", corrupted, digests)
                counts = ", ".join(f"{count} {word}" for word, count in sorted(found.items()))
                print(f"{spec}: {kind}: {counts}; {time.monotonic() - began:.0f} s (seed {seed})", flush=True)
    print("no state that never existed")


if __name__ == "__main__":
    main()
