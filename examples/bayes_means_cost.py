"""What `bayes_means` costs: state size, median and worst step, and the kept samples that the worst one labelled anew.

Run it with one BLAS thread: OPENBLAS_NUM_THREADS=1 python examples/bayes_means_cost.py [--classes 19,100,1000]
"""

from __future__ import annotations

import argparse
from statistics import median
from time import process_time

import numpy as np

from cosmic_tta import BayesMeans, Sample, Task
from cosmic_tta.ops import Array, as_float32, unit
from cosmic_tta.report import machine
from cosmic_tta.state import state_bytes

DIM, AUX_DIM = 512, 1024


def features(rng: np.random.Generator, *shape: int) -> Array:
    return unit(as_float32(rng.standard_normal(shape)))


def cost(classes: int, images: int) -> None:
    rng = np.random.default_rng(0)
    text, looks = features(rng, classes, DIM), features(rng, classes, AUX_DIM)
    method = BayesMeans()
    state = method.init(Task(tuple(f"class {k}" for k in range(classes)), text))
    sums, query = np.ones((classes, DIM + AUX_DIM), np.float32), np.ones(DIM + AUX_DIM, np.float32)
    spent, bare, rows = [], [], []
    for label in rng.integers(classes, size=images):
        clip = unit(text[label] + 2 * features(rng, DIM))
        sample = Sample(clip[None], unit(looks[label] + features(rng, AUX_DIM)))
        start = process_time()
        method.step(state, sample)
        spent.append(process_time() - start)
        start = process_time()
        sums @ query
        bare.append(process_time() - start)
        rows.append(state.relabelled)
    worst = int(np.argmax(spent))
    print(
        f"{classes:5} classes: {state_bytes(state) / 1e6:7.1f} MB,  median {1e3 * median(spent):7.3f} ms "
        f"({median(spent) / median(bare):.1f} × a bare pass over the class sums),  "
        f"worst {1e3 * spent[worst]:7.2f} ms at step {worst}, {rows[worst]} samples labelled anew (most: {max(rows)})"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--classes", default="19,100,1000", help="numbers of classes, with commas between")
    parser.add_argument("--images", type=int, default=600)
    chosen = parser.parse_args()
    print(machine(), f"features {DIM} + {AUX_DIM} wide")
    for classes in map(int, chosen.classes.split(",")):
        cost(classes, chosen.images)


if __name__ == "__main__":
    main()
