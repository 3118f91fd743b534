"""Time of a step without a session, with a journal synced each second, and with one synced always.

python benchmarks/journal.py [--folder DIR] [--steps 300]
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from cosmic_tta import Sample, make_method
from cosmic_tta.features.synthetic import superclass_pack
from cosmic_tta.sessions.session import Session


def median(step: Callable[[list[Sample]], object], blocks: list[list[Sample]]) -> float:
    """Return the median microseconds per block."""
    times, steps = [], len(blocks)
    for block in blocks:
        began = time.perf_counter()
        step(block)
        times.append(time.perf_counter() - began)
    return 1e6 * float(np.median(times[steps // 5 :]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=None)
    parser.add_argument("--steps", type=int, default=300)
    arguments = parser.parse_args()
    pack = superclass_pack(0, images=arguments.steps, superclasses=20, members=5, views=1, dim=512, aux_dim=768)
    samples = [pack.sample(number) for number in range(arguments.steps)]
    single = [[sample] for sample in samples]
    with tempfile.TemporaryDirectory(dir=arguments.folder) as root:
        handle = os.open(Path(root) / "plain", os.O_WRONLY | os.O_CREAT)
        line = bytes(5200)

        def synced(_: list[Sample]) -> None:
            os.write(handle, line)
            os.fsync(handle)

        print(f"fsync of 5 kB by itself: {median(synced, single):.0f} µs")
        for spec in ("zero_shot", "bayes_means", "cosmic"):
            method = make_method(spec)
            state = method.init(pack.task())
            row = [f"no session {median(partial(method.steps, state), single):.0f}"]
            for policy in ("everysec", "always"):
                folder = Path(root) / f"{spec} {policy}"
                with Session.create(folder, spec, pack.task(), method, policy=policy, every=10**6) as session:
                    row.append(f"{policy} {median(session.step, single):.0f}")
            with Session.create(Path(root) / f"{spec} block", spec, pack.task(), method, every=10**6) as session:
                took = median(session.step, [samples[:16]] * (arguments.steps // 5))
                row.append(f"always, 16 at once {took / 16:.0f} each")
                began = time.perf_counter()
                info = session.snapshot()
                row.append(f"a snapshot of {info.bytes / 1e6:.1f} MB {1e3 * (time.perf_counter() - began):.0f} ms")
            print(f"{spec}, 100 classes, 512 + 768 wide, µs per step: " + "; ".join(row), flush=True)


if __name__ == "__main__":
    main()
