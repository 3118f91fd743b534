"""Write the tables of docs/results/ from the results of `cosmic benchmark`: `make results` runs both.

    python tools/result_pages.py RESULTS.csv [--docs FOLDER]

A page marks where a table stands: `<!-- table: gains -->` before it, `<!-- end -->` after it. The tables are

- `accuracy`: accuracy per setting on shuffled streams; a setting is a pack with a kind of auxiliary features
- `gains`: mean gain over zero-shot per stream, the worst setting and the mean rank
- `gain KIND`, `ece KIND`, `auroc KIND`: one figure per setting on a kind of stream
- `conditions`: version, seeds and number of runs
"""

from __future__ import annotations

import argparse
import csv
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np

DOCS = Path(__file__).resolve().parents[1] / "docs" / "results"
MARKED = re.compile(r"(<!-- table: ([a-z -]+) -->\n).*?(<!-- end -->)", re.DOTALL)
STREAMS = {
    "shuffle": "shuffled", "long-tailed": "long-tailed", "class-sequential": "class-sequential",
    "dirichlet": "Dirichlet", "few-classes": "few classes at a time", "switching": "switching domains",
    "open-set": "open set", "absent": "absent classes",
}  # fmt: skip
METHODS = ("zero_shot", "tda", "dmn", "cosmic@official", "cosmic@paper", "cosmic", "bayes_means")
Setting = tuple[str, str]  # a pack and its auxiliary features


class Results:
    """The rows of a results.csv, as means over seeds in percent."""

    def __init__(self, path: Path) -> None:
        with path.open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        self.runs, self.versions = len(rows), sorted({row["version"] for row in rows})
        self.seeds = sorted({int(row["seed"]) for row in rows})
        found: dict[tuple[str, Setting, str, str], list[float]] = defaultdict(list)
        for row in rows:
            for figure in ("acc1", "gain", "ece", "auroc"):
                if row[figure]:
                    setting = row["pack"], row["aux"]
                    found[row["stream"], setting, row["method"], figure].append(100 * float(row[figure]))
        self.means = {key: float(np.mean(values)) for key, values in found.items()}
        self.settings = sorted({key[1] for key in found})
        self.streams = [stream for stream in STREAMS if any(key[0] == stream for key in found)]
        named = {key[2] for key in found}
        self.methods = [name for name in METHODS if name in named] + sorted(named - set(METHODS))

    def of_setting(self, stream: str, figure: str, show: str) -> str:
        """Return a table with a row per setting."""
        rows = []
        for setting in self.settings:
            values = [self.means.get((stream, setting, method, figure), np.nan) for method in self.methods]
            rows.append([", ".join(setting), *shown(values, show, lowest=figure == "ece")])
        return self._table("pack, auxiliary features", rows)

    def gains(self) -> str:
        """Return the table of mean gains per stream."""
        gains = np.array([self._gains(stream) for stream in self.streams])  # [streams, methods, settings]
        means = gains.mean(axis=2)
        rows = [[STREAMS[name], *shown(row, "+.2f")] for name, row in zip(self.streams, means, strict=True)]
        rows.append(["all", *shown(gains.mean(axis=(0, 2)), "+.2f")])
        rows.append(["worst setting", *shown(gains.min(axis=(0, 2)), "+.2f")])
        ranks = mean_ranks(gains.transpose(0, 2, 1).reshape(-1, len(self.methods)))
        rows.append(["mean rank", *shown(ranks, ".2f", lowest=True)])
        return self._table("stream", rows)

    def conditions(self) -> str:
        """Return a sentence on how the tables came about."""
        seeds = ", ".join(map(str, self.seeds))
        return f"Version {', '.join(self.versions)}, seeds {seeds}, {self.runs:,} runs.\n"

    def _gains(self, stream: str) -> list[list[float]]:
        return [[self.means[stream, setting, method, "gain"] for setting in self.settings] for method in self.methods]

    def _table(self, first: str, rows: Iterable[Sequence[str]]) -> str:
        head = [first, *("zero-shot" if name == "zero_shot" else f"`{name}`" for name in self.methods)]
        lines = [head, ["---"] * len(head), *rows]
        return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def shown(values: Iterable[float], form: str, lowest: bool = False) -> list[str]:
    """Return numbers as text, the best in bold, and a dash where there is none."""
    texts = ["–" if np.isnan(value) else format(value, form) for value in values]
    numbers = {float(text) for text in texts if text != "–"}
    best = (min if lowest else max)(numbers, default=None)
    return [f"**{text}**" if text != "–" and float(text) == best else text for text in texts]


def mean_ranks(rows: np.ndarray[tuple[int, int], np.dtype[np.float64]]) -> list[float]:
    """Return the mean rank per column, 1 for the highest; equal ones share their mean rank."""
    above = (rows[:, None] > rows[:, :, None]).sum(axis=2)
    equal = (rows[:, None] == rows[:, :, None]).sum(axis=2)
    return [float(rank) for rank in (above + (equal + 1) / 2).mean(axis=0)]


def tables(results: Results) -> Callable[[str], str]:
    """Return the function from a table's name to its text."""

    def table(name: str) -> str:
        if name in ("gains", "conditions"):
            return results.gains() if name == "gains" else results.conditions()
        if name == "accuracy":
            return results.of_setting("shuffle", "acc1", ".2f")
        figure, _, stream = name.partition(" ")
        if figure not in ("gain", "ece", "auroc") or stream not in STREAMS:
            raise SystemExit(f"error: no table is named {name!r}.")
        return results.of_setting(stream, figure, "+.2f" if figure == "gain" else ".1f")

    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path, metavar="RESULTS.csv")
    parser.add_argument("--docs", type=Path, default=DOCS, metavar="FOLDER", help="the pages; default: docs/results")
    options = parser.parse_args()
    table = tables(Results(options.results))
    for page in sorted(options.docs.glob("*.md")):
        old = page.read_text(encoding="utf-8")
        new = MARKED.sub(lambda found: f"{found[1]}\n{table(found[2])}\n{found[3]}", old)
        if new != old:
            page.write_text(new, encoding="utf-8")
            print(f"written: {page}")


if __name__ == "__main__":
    main()
