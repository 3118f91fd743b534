"""`cosmic draw-views`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cosmic_tta.corruptions import Corruption
from cosmic_tta.datasets import open_source
from cosmic_tta.encoders import diffusion
from cosmic_tta.errors import InputError
from cosmic_tta.generation import draw_views
from cosmic_tta.terminal import counter, say


def draw(
    source: Annotated[str, typer.Argument(help="The pictures, as `cosmic extract` takes them.")],
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Where the views are kept.")],
    model: Annotated[
        str, typer.Option(help="A pipeline of diffusers that varies a picture; or mini:drawer.")
    ] = diffusion.EXAMPLE,
    count: Annotated[int, typer.Option(help="Views of each picture.")] = 16,
    root: Annotated[Path | None, typer.Option(metavar="FOLDER", help="Where the published data sets lie.")] = None,
    split: Annotated[str, typer.Option(help="train, val or test, where the source has such.")] = "test",
    shift: Annotated[str | None, typer.Option(metavar="KIND:SEVERITY", help="Spoil each picture first.")] = None,
    seed: Annotated[int, typer.Option(help="Of the views and of the shift.")] = 0,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")] = "auto",
) -> None:
    """Draw views of pictures by a diffusion model, for DiffTPT. Run it again if it was stopped: it goes on."""
    if count < 1:
        raise InputError(f"--count must be at least 1; given {count}.")
    spoiled = None if shift is None else Corruption.parse(shift, seed)
    dataset = open_source(source, root=root, split=split)
    pen = diffusion.load(model, device)
    with counter(f"drawing {dataset.name}", "pictures") as watch:
        drawn = draw_views(dataset, pen, out, count, seed=seed, shift=spoiled, watch=watch)
    say(f"{out}: {count} views of each of {len(dataset):,} pictures, {drawn:,} drawn now.")
    say(f"Next: cosmic extract {source} --views-from {out} ...")
