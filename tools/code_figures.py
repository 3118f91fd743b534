"""Print how readable the repository is in a few figures, and exit with 1 if one is past its limit: `make lint` runs it.

A module that another test covers is listed in `merged_tests.toml` of the mirrored folder, with that test and a reason.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "cosmic_tta"
DATA_TABLES = {"data/datasets/published.py"}
CODE = (".py", ".js", ".css", ".c", ".h")


class Figure(NamedTuple):
    """One figure: what it counts, its value and limit, and where the value is found."""

    name: str
    value: float
    limit: float
    where: list[str]


def modules() -> list[Path]:
    """Return the modules of the package."""
    return sorted(PACKAGE.rglob("*.py"))


def entries() -> Figure:
    """Count what stands in the package's folder."""
    found = [path.name for path in PACKAGE.iterdir() if path.name != "__pycache__"]
    return Figure("entries in src/cosmic_tta", len(found), 16, [])


def longest_file() -> Figure:
    """Find the longest source file of the package and the kernel."""
    files = [path for folder in (PACKAGE, ROOT / "kernel") for path in folder.rglob("*") if path.suffix in CODE]
    lengths = {
        str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines())
        for path in files
        if path.relative_to(PACKAGE if path.is_relative_to(PACKAGE) else ROOT).as_posix() not in DATA_TABLES
    }
    return Figure(
        "lines of the longest source file", max(lengths.values()), 350,
        [f"{name}: {count}" for name, count in lengths.items() if count > 350],
    )  # fmt: skip


def longest_function() -> Figure:
    """Find the longest function of the package, its decorators and docstring included."""
    lengths = {}
    for path in modules():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                assert node.end_lineno is not None
                lengths[f"{path.relative_to(PACKAGE)}:{node.lineno} {node.name}"] = node.end_lineno - node.lineno + 1
    return Figure(
        "lines of the longest function", max(lengths.values()), 60,
        [f"{name}: {count}" for name, count in lengths.items() if count > 60],
    )  # fmt: skip


def duplicate_classes() -> Figure:
    """Count class names that stand for two classes."""
    places = defaultdict(list)
    for path in modules():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(str(path.relative_to(PACKAGE)))
    twice = {name: files for name, files in places.items() if len(files) > 1}
    return Figure(
        "class names given twice", len(twice), 0, [f"{name}: {', '.join(files)}" for name, files in twice.items()]
    )


def modules_without_tests() -> Figure:
    """Count modules without a test of their name in the mirrored folder that are not listed as merged."""
    bare = []
    for path in modules():
        name = path.relative_to(PACKAGE)
        merged = _merged(ROOT / "tests" / name.parent).get(name.name)
        if path.stem in ("__init__", "__main__") or (ROOT / "tests" / name.parent / f"test_{name.name}").exists():
            continue
        if merged is None or not (ROOT / "tests" / merged["test"]).exists() or not merged["reason"]:
            bare.append(name.as_posix())
    return Figure("modules without a test of their name", len(bare), 0, bare)


@cache
def _merged(folder: Path) -> dict[str, dict[str, str]]:
    file = folder / "merged_tests.toml"
    return tomllib.loads(file.read_text(encoding="utf-8")) if file.exists() else {}


def sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a Markdown page; code, tables, headings and links' addresses do not count."""
    text = re.sub(r"```.*?```", "", text, flags=re.S)
    text = re.sub(r"^(#|\||!|:::|---|<|    ).*$", "", text, flags=re.M)
    text = re.sub(r"`[^`]*`", "code", text)
    text = re.sub(r"\]\([^)]*\)", "]", text)
    for paragraph in re.split(r"\n\s*\n|\n\s*(?:[-*]|\d+\.)\s", text):
        for sentence in re.split(r"(?<=[.!?])\s+", " ".join(paragraph.split())):
            if len(sentence.split()) > 2:
                yield sentence


def mean_sentence() -> Figure:
    """Return the mean number of words in a sentence of the documentation."""
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    means = {}
    words = count = 0
    for page in pages:
        lengths = [len(sentence.split()) for sentence in sentences(page.read_text(encoding="utf-8"))]
        words, count = words + sum(lengths), count + len(lengths)
        if lengths and sum(lengths) / len(lengths) > 18:
            means[str(page.relative_to(ROOT))] = sum(lengths) / len(lengths)
    return Figure(
        "words in a sentence of the docs, mean", words / count, 18, [f"{k}: {v:.1f}" for k, v in means.items()]
    )


def public_names_without_example() -> Figure:
    """Count public classes and functions, imported by a package's `__init__`, whose docstring has no example.

    Errors need none.
    """
    bare = set()
    for path in PACKAGE.rglob("__init__.py"):
        for module, name in _imported(path):
            for node in ast.parse(module.read_text(encoding="utf-8")).body:
                if not isinstance(node, (ast.ClassDef, ast.FunctionDef)) or node.name != name:
                    continue
                if not name.endswith("Error") and ">>>" not in (ast.get_docstring(node) or ""):
                    bare.add(f"{name} ({module.relative_to(PACKAGE)})")
    return Figure("public names without an example", len(bare), 0, sorted(bare))


def _imported(path: Path) -> Iterator[tuple[Path, str]]:
    """Yield the module and the name of everything that an `__init__` imports from this package for its `__all__`."""
    text = path.read_text(encoding="utf-8")
    public = set(re.findall(r'"(\w+)"', text.partition("__all__")[2].partition("]")[0]))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("cosmic_tta."):
            module = PACKAGE.parent / f"{(node.module or '').replace('.', '/')}.py"
            if module.exists():
                yield from ((module, alias.name) for alias in node.names if (alias.asname or alias.name) in public)


def main() -> None:
    """Print every figure, and where it is past its limit."""
    figures = [
        entries(), longest_file(), longest_function(), duplicate_classes(), modules_without_tests(), mean_sentence(),
        public_names_without_example(),
    ]  # fmt: skip
    failed = False
    for figure in figures:
        over = figure.value > figure.limit
        failed |= over
        print(f"{figure.name}: {figure.value:.4g} (at most {figure.limit:g}){' EXCEEDED' if over else ''}")
        for where in figure.where if over or "--verbose" in sys.argv else []:
            print(f"  {where}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
