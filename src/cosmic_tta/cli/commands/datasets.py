"""`cosmic datasets`: the data sets of the paper, and whether copies are complete."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from cosmic_tta.cli.options import JsonFile
from cosmic_tta.cli.terminal import STDOUT, complain, print_table, refuse_unwritable, say, write_json
from cosmic_tta.core.errors import InputError
from cosmic_tta.data.datasets.layouts import PublishedDataset
from cosmic_tta.data.datasets.registry import CATALOGUE, folders, problems, published

datasets_app = typer.Typer(invoke_without_command=True, help="List the data sets of the paper; check your copies.")
SPLITS = ("train", "val", "test")


@datasets_app.callback()
def list_datasets(
    context: typer.Context,
    table: Annotated[bool, typer.Option("--table", help="Show the paper's tables: sizes, tasks and prompts.")] = False,
    json_file: JsonFile = None,
) -> None:
    """List the data sets of the paper; check your copies."""
    if context.invoked_subcommand is not None:
        return
    refuse_unwritable(json_file)
    rows = list(CATALOGUE.values())
    if json_file != STDOUT:
        if table:
            _paper_tables(rows)
        else:
            listed = [
                (row.key, row.title, row.folders[0], f"{row.classes:,}", f"{row.sizes['test']:,}") for row in rows
            ]
            print_table(("name", "data set", "folder", "classes", "test images"), listed)
            say("To check your copies: cosmic datasets check ROOT. Their layouts: see the guide on data sets.")
    write_json([_described(row) for row in rows], json_file)


@datasets_app.command()
def check(
    root: Annotated[Path, typer.Argument(metavar="ROOT", help="The folder of the data sets.")],
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME...]", help="Data sets. Default: all.")] = None,
    partial: Annotated[bool, typer.Option("--partial", help="Accept missing images and other counts.")] = False,
    json_file: JsonFile = None,
) -> None:
    """Find data sets below ROOT and check their classes and images, split by split."""
    asked = [published(name) for name in names or ()]
    if not root.is_dir():
        raise InputError(f"{str(root)!r} is not a folder; give the folder of the data sets.")
    refuse_unwritable(json_file)
    results = []
    for row in asked or CATALOGUE.values():
        found = dict(problems(row, root, partial=partial)) if asked or folders(row, root) else {}
        wrong = {split: problem for split, problem in found.items() if problem}
        state = "wrong" if wrong else "ok" if found else "absent"
        results.append({"name": row.key, "state": state, "splits": list(filter(None, found)), "problems": wrong})
        if json_file != STDOUT:
            _say_result(row, state, found, wrong)
    write_json(results, json_file)
    if any(result["state"] == "wrong" for result in results):
        raise typer.Exit(2)


def _say_result(row: PublishedDataset, state: str, found: dict[str, str], wrong: dict[str, str]) -> None:
    if state == "absent":
        say(f"{row.key}: not here ({row.folders[0]})")
    for problem in dict.fromkeys(wrong.values()):
        complain(f"{row.key}: {problem}")
    valid = [split for split in found if split not in wrong]
    if valid:
        say(f"{row.key}: ok ({', '.join(valid)})")


def _paper_tables(rows: Sequence[PublishedDataset]) -> None:
    ordered = sorted(rows, key=lambda row: (row.key.startswith("imagenet"), row.key.startswith("imagenet_")))
    counted = [
        (row.title, f"{row.classes:,}", *(_size(row.sizes.get(split)) for split in SPLITS), row.task) for row in ordered
    ]
    columns = ("data set", "classes", "train", "validation", "test", "target task")
    print_table(columns, counted, "The data sets of the paper")
    prompts = [(row.title, ", ".join(f'"{template}"' for template in row.templates)) for row in ordered]
    print_table(("data set", "prompts"), prompts, "Their prompts; {} is the class")


def _size(count: int | None) -> str:
    if count is None:
        return "–"
    return f"{count / 1e6:.2f}M" if count >= 1_000_000 else f"{count:,}"


def _described(row: PublishedDataset) -> dict[str, Any]:
    return {
        "name": row.key,
        "title": row.title,
        "folders": list(row.folders),
        "classes": row.classes,
        "sizes": dict(row.sizes),
        "task": row.task,
        "templates": list(row.templates),
        "layouts": [
            {"needs": list(layout.required_paths), "sizes": dict(layout.sizes or row.sizes)} for layout in row.layouts
        ],
        "source": row.source,
        "licence": row.licence,
    }
