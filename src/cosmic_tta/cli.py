"""The command `cosmic`: every command in its place, and what becomes of errors."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from io import TextIOWrapper
from typing import Annotated

import typer

from cosmic_tta import __version__
from cosmic_tta.commands import (
    benchmark,
    datasets,
    demonstration,
    drawing,
    encoders,
    evaluation,
    extraction,
    learning,
    listing,
    paper,
    prediction,
    reporting,
    serving,
    sweeping,
)
from cosmic_tta.errors import CosmicError
from cosmic_tta.terminal import STDOUT, complain

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    help="Streaming test-time adaptation of CLIP-like models, with no labels and no training.",
)
app.command(name="demo")(demonstration.demo)
app.command(name="predict")(prediction.predict)
app.command(name="draw-views")(drawing.draw)
app.command(name="extract")(extraction.extract_pack)
app.command(name="eval")(evaluation.evaluate_packs)
app.command(name="train")(learning.train_method)
app.command(name="sweep")(sweeping.sweep_grid)
app.command(name="paper")(paper.paper)
app.command(name="report")(reporting.report)
app.command(name="serve")(serving.serve)
app.command(name="methods")(listing.methods)
app.add_typer(datasets.datasets_app, name="datasets")
app.command(name="encoders")(encoders.encoders)
app.command(name="export-onnx")(encoders.export_onnx)
app.command(name="check")(listing.check)
app.command(name="bench")(benchmark.bench)


def _version(wanted: bool) -> None:
    if wanted:
        print(__version__)
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command; bad input ends with one clear sentence and exit code 2."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    for place, word in enumerate(words):
        # `--json` may stand alone: then it means standard output.
        if word == "--json" and (place + 1 == len(words) or words[place + 1].startswith("--")):
            words[place] = f"--json={STDOUT}"
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without ± shows a question mark
    try:
        app(words, prog_name="cosmic")
    except CosmicError as error:
        complain(f"error: {error}")
        sys.exit(2)
    except BrokenPipeError:
        sys.exit(1)
    except OSError as error:  # a full disk, a folder that went away
        complain(f"error: {error.strerror or error} ({error.filename or 'output'})")
        sys.exit(2)
