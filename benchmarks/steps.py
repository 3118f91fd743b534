"""Time every method's step beside a bare pass over COSMIC's CLIP memory, interleaved, in CPU time.

Run it with one BLAS thread: OPENBLAS_NUM_THREADS=1 python benchmarks/steps.py [--classes 20,100,400]
"""

from __future__ import annotations

import argparse
from statistics import median
from time import process_time

import numpy as np

from cosmic_tta import make_method
from cosmic_tta.report import machine
from cosmic_tta.state import state_bytes
from cosmic_tta.synthetic import superclass_pack

SPECS = ("zero_shot", "tda", "dmn", "cosmic@official", "cosmic@paper", "cosmic")


def bench(classes: int, images: int) -> None:
    pack = superclass_pack(images=images, superclasses=max(1, classes // 5), members=5, views=1, dim=512, aux_dim=384)
    methods = {spec: make_method(spec) for spec in SPECS}
    states = {spec: method.init(pack.task()) for spec, method in methods.items()}
    memory = np.zeros((len(pack.class_names) * 9, 512), np.float32)
    times: dict[str, list[float]] = {spec: [] for spec in ("bare pass", *SPECS)}
    for index in range(images):
        sample = pack.sample(index)
        start = process_time()
        memory @ sample.plain
        times["bare pass"].append(process_time() - start)
        for spec, method in methods.items():
            start = process_time()
            method.step(states[spec], sample)
            times[spec].append(process_time() - start)
    floor = median(times["bare pass"])
    print(f"\n{len(pack.class_names)} classes, {images} images, the first of a cold stream")
    print(f"{'':16}  median ms   worst ms   × bare pass  state MB")
    for name, spent in times.items():
        size = f"{state_bytes(states[name]) / 1e6:8.2f}" if name in states else ""
        print(f"{name:16} {1e3 * median(spent):10.3f} {1e3 * max(spent):10.2f} {median(spent) / floor:13.1f}  {size}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--classes", default="20,100,400", help="numbers of classes, with commas between")
    parser.add_argument("--images", type=int, default=200)
    chosen = parser.parse_args()
    print(machine())
    for classes in map(int, chosen.classes.split(",")):
        bench(classes, chosen.images)


if __name__ == "__main__":
    main()
