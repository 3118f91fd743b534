"""The command `cosmic`: every command in its place, and what becomes of errors."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated

import typer

from cosmic_tta.cli.commands import (
    bench,
    benchmark,
    check_method,
    datasets,
    demo,
    draw_views,
    encoders,
    extract,
    paper,
    predict,
    report,
    serve,
    sweep,
    train,
)
from cosmic_tta.cli.commands import eval as eval_command
from cosmic_tta.cli.commands import list as list_command
from cosmic_tta.cli.terminal import STDOUT, complain
from cosmic_tta.core.errors import CosmicError
from cosmic_tta.core.version import __version__
from cosmic_tta.methods import include

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    help="Streaming test-time adaptation of CLIP-like models, with no labels and no training.",
)
app.command(name="demo")(demo.demo)
app.command(name="predict")(predict.predict)
app.command(name="draw-views")(draw_views.draw)
app.command(name="extract")(extract.extract_pack)
app.command(name="eval")(eval_command.evaluate_packs)
app.command(name="train")(train.train_method)
app.command(name="sweep")(sweep.sweep_grid)
app.command(name="benchmark")(benchmark.benchmark)
app.command(name="paper")(paper.paper)
app.command(name="report")(report.report)
app.command(name="serve")(serve.serve)
app.command(name="methods")(list_command.methods)
app.add_typer(datasets.datasets_app, name="datasets")
app.command(name="encoders")(encoders.encoders)
app.command(name="export-onnx")(encoders.export_onnx)
app.command(name="check")(list_command.check)
app.command(name="check-method")(check_method.check_method)
app.command(name="bench")(bench.bench)


def _version(wanted: bool) -> None:
    if wanted:
        print(__version__)
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
    include_files: Annotated[
        list[Path] | None,
        typer.Option("--include", metavar="FILE.py", help="Load methods from a Python file; may be repeated."),
    ] = None,
) -> None:
    if include_files:
        include(include_files)


def _include_first(words: list[str]) -> list[str]:
    """Move `--include FILE.py` before the command, so that it may also stand after it."""
    options, rest = [], []
    remaining = iter(words)
    for word in remaining:
        if word == "--":
            rest += [word, *remaining]
        elif word == "--include":
            options += [word, *([value] if (value := next(remaining, None)) is not None else [])]
        elif word.startswith("--include="):
            options.append(word)
        else:
            rest.append(word)
    return options + rest


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command; bad input ends with one clear sentence and exit code 2."""
    words = _include_first(list(sys.argv[1:] if arguments is None else arguments))
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
