"""Options that several commands share, and how their text becomes values."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cosmic_tta.core.errors import InputError, refuse_duplicates, unknown_name

JsonFile = Annotated[
    str | None, typer.Option("--json", metavar="FILE", help="Write the result as JSON; - is standard output.")
]
Checkpoints = Annotated[
    list[Path] | None,
    typer.Option("--checkpoint", metavar="FILE", help="A file of `cosmic train`, for a trained method. Repeatable."),
]
Tower = Annotated[
    str | None,
    typer.Option(metavar="FAMILY:MODEL", help="Text tower of prompt-learning methods. Default: that of the pack."),
]
Support = Annotated[Path | None, typer.Option(metavar="PACK", help="Labelled training features, for few-shot methods.")]
Templates = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME|'... {} ...'", help="Prompt templates: a name, or a template. Repeatable."),
]
Descriptions = Annotated[
    Path | None, typer.Option(metavar="FILE", help="More sentences per class: JSON {name: [sentence, ...]}.")
]
DatasetRoot = Annotated[
    Path | None, typer.Option("--root", metavar="FOLDER", help="Folder of the published data sets.")
]
Split = Annotated[str, typer.Option(help="train, val or test, where the source has splits.")]
Shift = Annotated[
    str | None,
    typer.Option(metavar="KIND:SEVERITY", help="Corrupt each image first, for example haze:4. Severity 1 to 5."),
]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")]
Limit = Annotated[int | None, typer.Option(metavar="N", help="Use only the first N images of each stream.")]

Engine = Annotated[
    str, typer.Option("--engine", metavar="ENGINE", help="local: this machine. ray: a Ray cluster; see the guide.")
]
Address = Annotated[
    str | None,
    typer.Option("--address", metavar="ADDRESS", help="Of the Ray cluster, or auto. Default: this machine."),
]
ENGINES = ("local", "ray")


def uses_ray(engine: str, address: str | None) -> bool:
    """Return whether Ray does the work. Refuse an unknown engine, and an address without Ray."""
    if engine not in ENGINES:
        raise unknown_name("engine", engine, ENGINES)
    if engine != "ray" and address is not None:
        raise InputError(f"--address is for --engine ray; given --engine {engine} --address {address}.")
    if engine == "ray":
        from cosmic_tta.distributed import require

        require()
    return engine == "ray"


def parse_names(option: str, text: str) -> list[str]:
    """Split a list with commas, and refuse an empty list or a name that is given twice.

    >>> parse_names("--order", "shuffle, dirichlet")
    ['shuffle', 'dirichlet']
    """
    names = [part.strip() for part in text.split(",") if part.strip()]
    if not names:
        raise InputError(f"{option} is empty; give at least one name.")
    refuse_duplicates(option, names)
    return names


def parse_seeds(text: str) -> tuple[int, ...]:
    """Read seeds with commas between.

    >>> parse_seeds("0,1,2")
    (0, 1, 2)
    """
    try:
        seeds = tuple(int(part) for part in text.split(","))
    except ValueError as error:
        raise InputError(f"--seeds takes whole numbers with commas between; given {text!r}.") from error
    if min(seeds) < 0:
        raise InputError(f"--seeds takes numbers from 0 on; given {text!r}.")
    refuse_duplicates("--seeds", list(map(str, seeds)))
    return seeds
