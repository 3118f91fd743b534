"""`cosmic predict`: options → classifier → answers, one image after another."""

from __future__ import annotations

import glob
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from cosmic_tta import make_method
from cosmic_tta.classifier import DEFAULT_CLIP, Classifier
from cosmic_tta.cli.options import Descriptions, JsonFile, Templates
from cosmic_tta.cli.prediction_output import FORMATS, NoOutput, PredictionOutput
from cosmic_tta.cli.terminal import STDOUT, complain, counter, refuse_unwritable, write_json
from cosmic_tta.core.errors import ImageError, InputError
from cosmic_tta.data.class_names import read_class_names
from cosmic_tta.data.datasets.files import images_in
from cosmic_tta.data.prompts import find_templates, read_descriptions
from cosmic_tta.reporting.tables import counted
from cosmic_tta.training import checkpoint_file

STDIN = "-"

Paths = Annotated[
    list[str], typer.Argument(metavar="PATHS...", help="Images, folders, patterns; - reads paths from standard input.")
]
Classes = Annotated[str | None, typer.Option(metavar="A,B,C", help="Names of the classes.")]
ClassesFile = Annotated[Path | None, typer.Option(metavar="FILE", help="Names of the classes: one per line, or JSON.")]
Clip = Annotated[str, typer.Option(metavar="FAMILY:MODEL", help="The CLIP-like encoder; see `cosmic encoders`.")]
Aux = Annotated[
    str | None,
    typer.Option(metavar="FAMILY:MODEL", help="A self-supervised encoder for auxiliary features; `none` for none."),
]
Method = Annotated[str, typer.Option(metavar="NAME[@PRESET]", help="See `cosmic methods`.")]
Checkpoint = Annotated[
    Path | None, typer.Option(metavar="FILE", help="A file of `cosmic train`, for a trained method.")
]
State = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Continue from this saved state, and save the new one."),
]
Learn = Annotated[bool, typer.Option("--learn/--no-learn", help="Adapt to these images.")]
Top = Annotated[int, typer.Option(metavar="N", help="Classes per image.")]
Views = Annotated[int, typer.Option(help="Views per image: the plain image, then random crops.")]
Seed = Annotated[int, typer.Option(help="Seed of the views.")]
Unknown = Annotated[
    float | None,
    typer.Option(
        metavar="SHARE", help="Answer `unknown` for images above this, 0 to 1. They are learned all the same."
    ),
]
Why = Annotated[bool, typer.Option("--why", help="Explain each answer (table and jsonl).")]
Format = Annotated[str, typer.Option(help=f"What is printed: {', '.join(FORMATS)}.")]


def predict(
    paths: Paths,
    classes: Classes = None,
    classes_file: ClassesFile = None,
    clip: Clip = DEFAULT_CLIP,
    aux: Aux = None,
    method: Method = "bayes_means",
    checkpoint: Checkpoint = None,
    state: State = None,
    learn: Learn = True,
    top: Top = 1,
    views: Views = 1,
    seed: Seed = 0,
    templates: Templates = None,
    descriptions: Descriptions = None,
    unknown: Unknown = None,
    why: Why = False,
    format: Format = "table",
    json_file: JsonFile = None,
) -> None:
    """Classify images and adapt to them. No labels are needed."""
    _check_output(format, why, top, json_file)
    refuse_unwritable(json_file)
    refuse_unwritable(state)
    images = list(_images(paths))
    classifier = Classifier(
        _class_names(classes, classes_file),
        clip=clip,
        aux="" if aux is None else None if aux == "none" else aux,  # "": the classifier's own choice
        method=method if checkpoint is None else make_method(method, checkpoint=checkpoint_file.read(checkpoint)),
        templates=tuple(text for name in templates or ["plain"] for text in find_templates(name)),
        descriptions=None if descriptions is None else read_descriptions(descriptions),
        views=views,
        seed=seed,
        unknown=unknown,
    )
    if state is not None and state.exists():
        classifier.load(state)
    output = NoOutput() if json_file == STDOUT else FORMATS[format](top)
    rows: list[dict[str, Any]] = []
    try:
        failed = _classify(classifier, images, output, rows, learn=learn, top=top, why=why)
    finally:  # what was learned is saved, even if the rest was stopped
        if state is not None and learn and rows:
            classifier.save(state)
    output.close()
    if failed and rows:
        verb = "was" if failed == 1 else "were"
        complain(f"{failed} of {counted(len(images), 'image')} could not be read and {verb} skipped.")
    write_json(rows, json_file)
    if not rows:
        raise InputError(f"no image could be read; {len(images)} given.")


def _classify(
    classifier: Classifier,
    images: Sequence[str],
    output: PredictionOutput,
    rows: list[dict[str, Any]],
    *,
    learn: bool,
    top: int,
    why: bool,
) -> int:
    """Classify images in their order, append a row per image, and return how many could not be read."""
    first = classifier.state.seen  # samples that an earlier call learned from
    learned: dict[int, str] = {}  # the images of this call by their sample number
    failed = 0
    with counter("classifying", "images") as count:
        for number, path in enumerate(images, start=1):
            try:
                sample = classifier.sample(path)
            except ImageError as error:
                failed += 1
                complain(f"skipped: {error}")
                continue
            prediction = classifier.predict(sample, learn=learn)
            row: dict[str, Any] = {"path": path, "answers": classifier.class_scores(prediction, top)}
            row["unknown"] = prediction.unknown
            sample_number = first + len(rows)
            reasons: list[str] = []
            if why:
                row["why"] = prediction.why.plain()
                reasons = list(prediction.why.lines(learned | {sample_number: "itself"}))
            output.add(row, reasons)
            rows.append(row)
            if learn:
                learned[sample_number] = path
            count(number, len(images), f"{failed} failed" if failed else "")
    return failed


def _check_output(format: str, why: bool, top: int, json_file: str | None) -> None:
    if format not in FORMATS:
        raise InputError(f"--format is one of {', '.join(FORMATS)}; given {format!r}.")
    if why and format == "csv" and json_file != STDOUT:
        raise InputError("CSV has no room for --why; choose --format jsonl or table.")
    if top < 1:
        raise InputError(f"--top must be at least 1; given {top}.")


def _class_names(names: str | None, file: Path | None) -> tuple[str, ...]:
    if (names is None) == (file is None):
        raise InputError("name the classes: --classes a,b,c or --classes-file FILE (one of them).")
    if file is not None:
        return read_class_names(file).names
    return tuple(name.strip() for name in (names or "").split(",") if name.strip())


def _images(paths: Sequence[str]) -> Iterator[str]:
    """Yield files: all images below a folder, the matches of a pattern, the lines of standard input for `-`."""
    for path in paths:
        if path == STDIN:
            yield from _images([line for line in sys.stdin.read().splitlines() if line.strip()])
        elif Path(path).is_dir():
            below = [str(Path(path) / name) for name in images_in(Path(path), deep=True).paths]
            if not below:
                raise InputError(f"there is no image in the folder {path!r}.")
            yield from below
        elif not Path(path).exists() and any(sign in path for sign in "*?["):
            matches = sorted(glob.glob(path, recursive=True))  # noqa: PTH207 - a pattern may be absolute
            if not matches:
                raise InputError(f"no file matches {path!r}.")
            yield from _images([match for match in matches if match != STDIN])
        else:
            yield path  # a missing file is reported when it is opened; the others are still classified
