"""Measure the cost of `bayes_means`: the size of its state, and the median and slowest step.

OPENBLAS_NUM_THREADS=1 python examples/bayes_means_cost.py [--classes 19,100,1000] [--images 600]
"""

from __future__ import annotations

import argparse
from statistics import median
from time import process_time

import numpy as np

from cosmic_tta import BayesMeans, Sample, Task
from cosmic_tta.core.arrays import Array, as_float32, unit
from cosmic_tta.core.state_tree import state_bytes
from cosmic_tta.evaluation.report import machine

DIM, AUX_DIM = 512, 1024


def random_units(rng: np.random.Generator, *shape: int) -> Array:
    """Generate random rows of unit length."""
    return unit(as_float32(rng.standard_normal(shape)))


def measure(classes: int, images: int) -> str:
    """Step through generated images and return one line of figures."""
    rng = np.random.default_rng(0)
    text, aux_centres = random_units(rng, classes, DIM), random_units(rng, classes, AUX_DIM)
    method = BayesMeans()
    state = method.init(Task(tuple(f"class {k}" for k in range(classes)), text))
    sums, query = np.ones((classes, DIM + AUX_DIM), np.float32), np.ones(DIM + AUX_DIM, np.float32)
    step_seconds, product_seconds = [], []
    for label in rng.integers(classes, size=images):
        clip = unit(text[label] + 2 * random_units(rng, DIM))
        sample = Sample(clip[None], unit(aux_centres[label] + random_units(rng, AUX_DIM)))
        start = process_time()
        method.step(state, sample)
        step_seconds.append(process_time() - start)
        start = process_time()
        sums @ query
        product_seconds.append(process_time() - start)
    slowest = int(np.argmax(step_seconds))
    return (
        f"{classes:5} classes: {state_bytes(state) / 1e6:7.1f} MB,  median {1e3 * median(step_seconds):7.3f} ms "
        f"({median(step_seconds) / median(product_seconds):.1f} × one product with the class sums),  "
        f"slowest {1e3 * step_seconds[slowest]:7.2f} ms at step {slowest}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--classes", default="19,100,1000", help="numbers of classes, with commas between")
    parser.add_argument("--images", type=int, default=600, help="steps to measure")
    options = parser.parse_args()
    print(machine(), f"features of {DIM} + {AUX_DIM} dimensions")
    for classes in map(int, options.classes.split(",")):
        print(measure(classes, options.images), flush=True)


if __name__ == "__main__":
    main()
