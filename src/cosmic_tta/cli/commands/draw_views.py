"""`cosmic draw-views`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cosmic_tta.cli.terminal import counter, say
from cosmic_tta.core.errors import InputError
from cosmic_tta.data.datasets import open_source
from cosmic_tta.data.images.corrupt import Corruption
from cosmic_tta.encoders import diffusion
from cosmic_tta.features.diffusion_views import generate_views


def draw(
    source: Annotated[str, typer.Argument(help="The images, as for `cosmic extract`.")],
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Folder of the views.")],
    model: Annotated[
        str, typer.Option(help="A pipeline of diffusers that varies an image; or mini:diffusion.")
    ] = diffusion.EXAMPLE,
    count: Annotated[int, typer.Option(help="Views per image.")] = 16,
    root: Annotated[Path | None, typer.Option(metavar="FOLDER", help="Where the published data sets lie.")] = None,
    split: Annotated[str, typer.Option(help="train, val or test, where the source has such.")] = "test",
    shift: Annotated[
        str | None, typer.Option(metavar="KIND:SEVERITY", help="Corrupt each image first, for example haze:4.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the views and of the shift.")] = 0,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")] = "auto",
) -> None:
    """Generate views of images with a diffusion model, for DiffTPT. If it was stopped, run it again: it continues."""
    if count < 1:
        raise InputError(f"--count must be at least 1; given {count}.")
    corruption = None if shift is None else Corruption.parse(shift, seed)
    dataset = open_source(source, root=root, split=split)
    generate = diffusion.load(model, device)
    with counter(f"generating views of {dataset.name}", "images") as watch:
        generated = generate_views(dataset, generate, out, count, seed=seed, shift=corruption, watch=watch)
    say(f"{out}: {count} views of each of {len(dataset):,} images, {generated:,} generated now.")
    say(f"Next: cosmic extract {source} --views-from {out} ...")
