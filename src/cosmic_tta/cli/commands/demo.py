"""`cosmic demo`."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from cosmic_tta import make_method
from cosmic_tta.cli.commands.report import read_results, write_report
from cosmic_tta.cli.options import JsonFile
from cosmic_tta.cli.report_output import show_reports
from cosmic_tta.cli.terminal import STDOUT, counter, progress_bar, refuse_unwritable, say
from cosmic_tta.core.errors import InputError
from cosmic_tta.data.images.corrupt import CORRUPTIONS, Corruption
from cosmic_tta.evaluation.evaluator import run_evaluation
from cosmic_tta.evaluation.run_folder import RunFolder, RunRecorder
from cosmic_tta.features.embedded_pack import shifted_pack
from cosmic_tta.methods import split_name
from cosmic_tta.reporting.accuracy_plot import draw_curves
from cosmic_tta.reporting.plotting.requirements import INSTALL, can_draw

METHODS = ("zero_shot", "tda", "dmn", "cosmic", "bayes_means")


def demo(
    shift: Annotated[str, typer.Option(help=f"How the photographs are corrupted: {', '.join(CORRUPTIONS)}.")] = "haze",
    severity: Annotated[int, typer.Option(help="How strongly: 1 to 5.")] = 4,
    images: Annotated[int, typer.Option(help="How many photographs, at most 2,000.")] = 2000,
    seed: Annotated[int, typer.Option(help="Seed of the shift and of the order.")] = 0,
    image: Annotated[Path, typer.Option(metavar="FILE", help="Chart of accuracy over time.")] = Path("cosmic-demo.png"),
    json_file: JsonFile = None,
) -> None:
    """Adapt to corrupted photographs that ship with the package; nothing is downloaded."""
    refuse_unwritable(json_file)
    refuse_unwritable(image)
    if image.suffix == ".html":
        raise InputError(f"--image is a PNG file; given {str(image)!r}. The HTML page is written beside it.")
    change = Corruption(shift, severity, seed)
    with counter("encoding", "photographs") as count:
        pack = shifted_pack(change, images, count)
    quiet = json_file == STDOUT
    lead = (
        f"{len(pack):,} photographs of {len(pack.class_names)} classes under {change}, one after another. "
        "The small model was not trained on such images, and no method sees a label."
    )
    if not quiet:
        say(lead)
    reports, curves = [], {}
    with TemporaryDirectory() as temporary:
        folder = RunFolder.begin(temporary)
        for spec in METHODS:
            with progress_bar(spec) as watch:
                seen = RunRecorder(watch)
                run = run_evaluation(make_method(spec), pack, preset=split_name(spec)[1], seed=seed, watch=seen)
            reports.append(run.report)
            folder.add(run, seen)
            curves[spec] = run.curve()
        folder.finish()
        draw_curves(curves, f"Accuracy while adapting: {change}", image)
        page = image.with_name(f"{image.stem}.html") if can_draw() else None
        if page is not None:
            write_report(read_results([folder.path]), page, f"Adapting to {change}", lead)
    show_reports(reports, json_file)
    if not quiet:
        say(f"Accuracy over time: {image}")
        if page is None:
            say(f"To get an HTML page with charts and images too: {INSTALL}.")
        else:
            say(f"The whole report, for a browser: {page}")
        say("Next, your own images: cosmic predict FOLDER --classes cat,dog,ship")
        say("For classes other than the small model's ten, use a real CLIP: see README, Your own images.")
