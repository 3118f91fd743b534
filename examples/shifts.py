"""Every shift of the embedded photographs, at chosen severities, by every method: the table of docs/mini.md.

python examples/shifts.py [--severities 4,5] [--methods tda,dmn,cosmic,bayes_means] [--images 2000]
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import numpy as np

from cosmic_tta import make_method
from cosmic_tta.corruptions import CORRUPTIONS, Corruption
from cosmic_tta.demo import shifted_pack
from cosmic_tta.evaluate import score


def gains(methods: Sequence[str], severities: Sequence[int], images: int) -> dict[str, dict[str, float]]:
    """Return zero-shot accuracy and each method's accuracy, by shift."""
    table = {}
    for kind in CORRUPTIONS:
        for severity in severities:
            pack = shifted_pack(Corruption(kind, severity), images)
            metrics = {name: score(make_method(name), pack).report.metrics for name in methods}
            row = {name: told["acc1"] for name, told in metrics.items()}
            table[f"{kind} {severity}"] = {"zero_shot": metrics[methods[0]]["zero_shot_acc1"]} | row
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--severities", default="4,5")
    parser.add_argument("--methods", default="tda,dmn,cosmic,bayes_means")
    parser.add_argument("--images", type=int, default=2000)
    given = parser.parse_args()
    methods = given.methods.split(",")
    table = gains(methods, [int(part) for part in given.severities.split(",")], given.images)
    names = ["zero_shot", *methods]
    print(f"| shift | {' | '.join(names)} |\n|---|{'---|' * len(names)}")
    for shift, row in table.items():
        print(f"| {shift} | {' | '.join(f'{100 * row[name]:.1f}' for name in names)} |")
    means = [np.mean([row[name] for row in table.values()]) for name in names]
    print(f"| mean | {' | '.join(f'{100 * mean:.1f}' for mean in means)} |")


if __name__ == "__main__":
    main()
