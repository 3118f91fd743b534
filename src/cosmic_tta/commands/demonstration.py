"""`cosmic demo`."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from cosmic_tta import make_method
from cosmic_tta.commands.evaluation import show_reports
from cosmic_tta.commands.options import JsonFile
from cosmic_tta.commands.reporting import gathered, write_report
from cosmic_tta.corruptions import CORRUPTIONS, Corruption
from cosmic_tta.demo import draw_curves, shifted_pack
from cosmic_tta.drawing.needs import INSTALL, can_draw
from cosmic_tta.errors import InputError
from cosmic_tta.evaluate import score
from cosmic_tta.methods import split_name
from cosmic_tta.runs import Recorder, RunFolder
from cosmic_tta.terminal import STDOUT, counter, progress_bar, say, writable

METHODS = ("zero_shot", "tda", "dmn", "cosmic", "bayes_means")


def demo(
    shift: Annotated[str, typer.Option(help=f"What is done to the photographs: {', '.join(CORRUPTIONS)}.")] = "haze",
    severity: Annotated[int, typer.Option(help="How strongly, 1 to 5.")] = 4,
    images: Annotated[int, typer.Option(help="How many photographs; 2,000 are there.")] = 2000,
    seed: Annotated[int, typer.Option(help="Of the shift and of the order.")] = 0,
    picture: Annotated[Path, typer.Option(metavar="FILE", help="Where accuracy over time is drawn.")] = Path(
        "cosmic-demo.png"
    ),
    json_file: JsonFile = None,
) -> None:
    """Adapt to real photographs that a shift has spoiled, with nothing to download."""
    writable(json_file)
    writable(picture)
    if picture.suffix == ".html":
        raise InputError(f"--picture is a PNG; given {str(picture)!r}. The page is written beside it.")
    change = Corruption(shift, severity, seed)
    with counter("encoding", "photographs") as count:
        pack = shifted_pack(change, images, count)
    quiet = json_file == STDOUT
    lead = (
        f"{len(pack):,} photographs of {len(pack.class_names)} classes through {change}, one after the other. "
        "The small model that names them has never seen such; no method sees a label."
    )
    if not quiet:
        say(lead)
    reports, curves = [], {}
    with TemporaryDirectory() as place:
        folder = RunFolder.begin(place)
        for spec in METHODS:
            with progress_bar(spec) as watch:
                seen = Recorder(watch)
                run = score(make_method(spec), pack, preset=split_name(spec)[1], seed=seed, watch=seen)
            reports.append(run.report)
            folder.add(run, seen)
            curves[spec] = run.curve()
        folder.finish()
        draw_curves(curves, f"Accuracy while adapting: {change}", picture)
        page = picture.with_name(f"{picture.stem}.html") if can_draw() else None
        if page is not None:
            write_report(gathered([folder.path]), page, f"Adapting to {change}", lead)
    show_reports(reports, json_file)
    if not quiet:
        say(f"Accuracy over time: {picture}")
        if page is None:
            say(f"A page with charts and a gallery is written too, where what draws is installed: {INSTALL}.")
        else:
            say(f"The whole report, to open in a browser: {page}")
        say("Next, your own pictures: cosmic predict FOLDER --classes cat,dog,ship")
        say("With other classes than the small model's ten, take a real CLIP: README, Your own pictures.")
