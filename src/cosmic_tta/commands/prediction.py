"""`cosmic predict`."""

from __future__ import annotations

import csv
import glob
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Protocol

import typer

from cosmic_tta import checkpoints, make_method
from cosmic_tta.classifier import DEFAULT_CLIP, Classifier
from cosmic_tta.commands.options import JsonFile
from cosmic_tta.datasets.files import pictures_in
from cosmic_tta.errors import InputError, PictureError
from cosmic_tta.prompts import named_templates, read_class_names, read_descriptions
from cosmic_tta.terminal import STDOUT, complain, counter, print_table, say, writable, write_json

FORMATS = ("table", "jsonl", "csv")
STDIN = "-"


def predict(
    paths: Annotated[
        list[str], typer.Argument(metavar="PATHS...", help="Pictures, folders, patterns; - reads a list of paths.")
    ],
    classes: Annotated[str | None, typer.Option(metavar="A,B,C", help="Names of the classes.")] = None,
    classes_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Names of the classes: one a line, or JSON.")
    ] = None,
    clip: Annotated[
        str, typer.Option(metavar="FAMILY:MODEL", help="The CLIP-like encoder; see `cosmic encoders`.")
    ] = DEFAULT_CLIP,
    aux: Annotated[
        str | None,
        typer.Option(metavar="FAMILY:MODEL", help="A self-supervised encoder beside it; `none` for none."),
    ] = None,
    method: Annotated[str, typer.Option(metavar="NAME[@PRESET]", help="See `cosmic methods`.")] = "bayes_means",
    checkpoint: Annotated[
        Path | None, typer.Option(metavar="FILE", help="What `cosmic train` wrote, for a method that was trained.")
    ] = None,
    state: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Go on from what was learned before, and keep it for later.")
    ] = None,
    learn: Annotated[bool, typer.Option("--learn/--no-learn", help="Adapt to these pictures.")] = True,
    top: Annotated[int, typer.Option(metavar="N", help="So many classes a picture.")] = 1,
    views: Annotated[int, typer.Option(help="Views a picture: the plain one, then random crops.")] = 1,
    seed: Annotated[int, typer.Option(help="Of the views.")] = 0,
    templates: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME|'... {} ...'", help="Templates by name, or one of your own; may be repeated."),
    ] = None,
    descriptions: Annotated[
        Path | None, typer.Option(metavar="FILE", help="More sentences for each class: JSON {name: [sentence, ...]}.")
    ] = None,
    why: Annotated[bool, typer.Option("--why", help="Tell what spoke for each answer (table and jsonl).")] = False,
    format: Annotated[str, typer.Option(help=f"What is printed: {', '.join(FORMATS)}.")] = "table",
    json_file: JsonFile = None,
) -> None:
    """Name what is on pictures, adapting to them on the way. No label is asked for."""
    if format not in FORMATS:
        raise InputError(f"--format is one of {', '.join(FORMATS)}; given {format!r}.")
    if why and format == "csv" and json_file != STDOUT:
        raise InputError("--why has no place in CSV; take --format jsonl or table.")
    if top < 1:
        raise InputError(f"--top must be at least 1; given {top}.")
    writable(json_file)
    writable(state)
    found = list(_pictures(paths))
    classifier = Classifier(
        _classes(classes, classes_file),
        clip=clip,
        aux=_aux(aux),
        method=method if checkpoint is None else make_method(method, checkpoint=checkpoints.read(checkpoint)),
        templates=tuple(text for name in templates or ["plain"] for text in named_templates(name)),
        descriptions=None if descriptions is None else read_descriptions(descriptions),
        views=views,
        seed=seed,
    )
    if state is not None and state.exists():
        classifier.load(state)
    printer = _Nothing() if json_file == STDOUT else PRINTERS[format](top)
    first = classifier.state.seen  # pictures that an earlier call learned from
    rows: list[dict[str, Any]] = []
    failed: dict[str, str] = {}
    learned: dict[int, str] = {}  # pictures by their place in the stream
    try:
        with counter("looking", "pictures") as count:
            for place, path in enumerate(found, start=1):
                try:
                    sample = classifier.sample(path)
                except PictureError as error:
                    failed[path] = str(error)
                    complain(f"passed over: {error}")
                    continue
                prediction = classifier.predict(sample, learn=learn)
                answers = classifier.answers(prediction, top)
                row: dict[str, Any] = {"path": path, "answers": answers}
                now = first + len(rows)
                if why:
                    row["why"] = prediction.why.plain()
                printer.add(row, list(prediction.why.lines(learned | {now: "itself"})) if why else [])
                rows.append(row)
                if learn:
                    learned[now] = path
                count(place, len(found), f"{len(failed)} failed" if failed else "")
    finally:  # what was learned is kept, whatever stopped the rest
        if state is not None and learn and rows:
            classifier.save(state)
    printer.close()
    if failed and rows:
        complain(f"{len(failed)} of {len(found)} pictures could not be read; they were passed over.")
    write_json(rows, json_file)
    if not rows:
        raise InputError(f"none of {len(found)} pictures could be read.")


def _classes(names: str | None, file: Path | None) -> tuple[str, ...]:
    if (names is None) == (file is None):
        raise InputError("name the classes: --classes a,b,c or --classes-file FILE (one of them).")
    if file is not None:
        return read_class_names(file).names
    return tuple(name.strip() for name in (names or "").split(",") if name.strip())


def _aux(given: str | None) -> str | None:
    """Nothing said is the classifier's own choice; `none` is none."""
    return "" if given is None else None if given == "none" else given


def _pictures(paths: Sequence[str]) -> Iterator[str]:
    """Yield files: of a folder all pictures under it, of a pattern what it matches, of - the lines read."""
    for path in paths:
        if path == STDIN:
            yield from _pictures([line for line in sys.stdin.read().splitlines() if line.strip()])
        elif Path(path).is_dir():
            below = [str(Path(path) / name) for name in pictures_in(Path(path), deep=True).paths]
            if not below:
                raise InputError(f"there is no picture in the folder {path!r}.")
            yield from below
        elif not Path(path).exists() and any(sign in path for sign in "*?["):
            matched = sorted(glob.glob(path, recursive=True))  # noqa: PTH207 - a pattern may be absolute
            if not matched:
                raise InputError(f"no file matches {path!r}.")
            yield from _pictures([one for one in matched if one != STDIN])
        else:
            yield path  # one that is not there is told when it is opened, and the rest goes on


class _Printer(Protocol):
    def add(self, row: Mapping[str, Any], why: Sequence[str]) -> None: ...
    def close(self) -> None: ...


class _Nothing:
    def add(self, row: Mapping[str, Any], why: Sequence[str]) -> None:
        pass

    def close(self) -> None:
        pass


class _Table:
    def __init__(self, top: int) -> None:
        self._rows: list[tuple[str, ...]] = []
        self._why: list[Sequence[str]] = []
        self._columns = ("picture", *(("label", "score") * top))

    def add(self, row: Mapping[str, Any], why: Sequence[str]) -> None:
        cells = [cell for answer in row["answers"] for cell in (answer["label"], f"{answer['score']:.3f}")]
        self._rows.append((row["path"], *cells))
        self._why.append(why)

    def close(self) -> None:
        if self._rows:
            print_table(self._columns[: len(self._rows[0])], self._rows)
        for cells, lines in zip(self._rows, self._why, strict=True):
            if lines:
                say("\n  ".join([f"{cells[0]}: {cells[1]}, because", *lines]))


class _Lines:
    def __init__(self, top: int) -> None:
        pass

    def add(self, row: Mapping[str, Any], why: Sequence[str]) -> None:
        print(json.dumps(row, ensure_ascii=False), flush=True)

    def close(self) -> None:
        pass


class _Csv:
    def __init__(self, top: int) -> None:
        self._writer = csv.writer(sys.stdout, lineterminator="\n")
        self._writer.writerow(["path", "rank", "label", "score"])

    def add(self, row: Mapping[str, Any], why: Sequence[str]) -> None:
        for rank, answer in enumerate(row["answers"], start=1):
            self._writer.writerow([row["path"], rank, answer["label"], f"{answer['score']:.6f}"])
        sys.stdout.flush()

    def close(self) -> None:
        pass


PRINTERS: dict[str, Any] = {"table": _Table, "jsonl": _Lines, "csv": _Csv}
