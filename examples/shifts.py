"""Evaluate methods on every corruption of the embedded photographs, and print the table of docs/results/shifts.md.

python examples/shifts.py [--severities 4,5] [--methods tda,dmn,cosmic,bayes_means] [--images 2000]
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import numpy as np

from cosmic_tta import make_method
from cosmic_tta.data.images.corrupt import CORRUPTIONS, Corruption
from cosmic_tta.evaluation import run_evaluation
from cosmic_tta.features.embedded_pack import shifted_pack


def accuracies(methods: Sequence[str], severities: Sequence[int], images: int) -> dict[str, dict[str, float]]:
    """Return the accuracy of zero-shot and of each method, per corruption and severity."""
    table = {}
    for kind in CORRUPTIONS:
        for severity in severities:
            pack = shifted_pack(Corruption(kind, severity), images)
            metrics = {name: run_evaluation(make_method(name), pack).report.metrics for name in methods}
            row = {name: found["acc1"] for name, found in metrics.items()}
            table[f"{kind} {severity}"] = {"zero_shot": metrics[methods[0]]["zero_shot_acc1"]} | row
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--severities", default="4,5", help="severities from 1 to 5, with commas between")
    parser.add_argument("--methods", default="tda,dmn,cosmic,bayes_means", help="methods, with commas between")
    parser.add_argument("--images", type=int, default=2000, help="photographs per corruption")
    options = parser.parse_args()
    methods = options.methods.split(",")
    table = accuracies(methods, [int(severity) for severity in options.severities.split(",")], options.images)
    columns = ["zero_shot", *methods]
    print(f"| shift | {' | '.join(columns)} |\n|---|{'---|' * len(columns)}")
    for shift, row in table.items():
        print(f"| {shift} | {' | '.join(f'{100 * row[name]:.1f}' for name in columns)} |")
    means = [np.mean([row[name] for row in table.values()]) for name in columns]
    print(f"| mean | {' | '.join(f'{100 * mean:.1f}' for mean in means)} |")


if __name__ == "__main__":
    main()
