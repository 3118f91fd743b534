"""The run folder: all that a report page needs of some runs, and nothing that could be run.

Format 1: `reports.json`; for every run an .npz with its stream (`order`, `scores`, `part_<name>`, `labels`,
`counted`), what its method held in the end (`text`, and for every memory `<name>.slots`, `.classes`, `.samples`,
`.nodes`, `.sizes`) and the cases that adaptation changed (`changed`, `inliers_<space>`, and `pictures` of the steps
`pictured`, where there are any). `run.json` comes last, with the size of every file: without it, or with another
size, the folder was not written to its end.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosmic_tta.cache import ClassCache
from cosmic_tta.core import State, Task
from cosmic_tta.errors import InputError
from cosmic_tta.evaluate import Progress, Run
from cosmic_tta.hyperclass import HyperClasses
from cosmic_tta.ops import Array, Bools, Ints
from cosmic_tta.originals import picture_of
from cosmic_tta.report import Report, as_rows, from_json

FORMAT = 1
HEAD, REPORTS = "run.json", "reports.json"
MOST_CASES = 2000  # changed cases that are explained
MOST_PICTURES = 24  # of right ones, and as many of wrong ones
MOST_SLOTS = 20_000  # kept samples of one memory that are written
Watch = Callable[[Progress], None]


@dataclass(frozen=True, eq=False)
class Memory:
    """What one feature space of a method held in the end: kept samples, and the cliques of its last graph."""

    name: str
    slots: Array  # [m, D]
    classes: Ints  # [m] under which class each is kept
    samples: Ints  # [m] which step of the stream it was
    nodes: Ints  # cliques, one after the other; empty without a graph
    sizes: Ints

    @property
    def cliques(self) -> list[Ints]:
        """The nodes of each clique; in the CLIP space the texts come first, then the classes' centres."""
        return np.split(self.nodes, np.cumsum(self.sizes)[:-1]) if len(self.sizes) else []


@dataclass(frozen=True, eq=False)
class SavedRun:
    """One run, read back."""

    report: Report
    class_names: tuple[str, ...]
    clip_model: str
    aux_model: str
    order: Ints  # [n]
    scores: Array  # [n, K]
    parts: Mapping[str, Array]  # [n, K] each
    labels: Ints | None  # [n]; below 0: none of the task's classes
    counted: Bools  # [n] steps that accuracy counts
    text: Array  # [K, D]
    memories: tuple[Memory, ...]
    changed: Ints  # [c] steps whose answer is not zero-shot's
    inliers: Mapping[str, Bools]  # by space, [c, K]
    pictured: Ints  # [p] steps
    pictures: NDArray[np.uint8]  # [p, height, width, 3]

    @property
    def answers(self) -> Ints:
        """The class that was answered in each step."""
        best: Ints = self.scores.argmax(axis=1)
        return best


@dataclass
class Recorder:
    """Watches a run for what its report does not hold; `watch` is another watcher that sees each step too."""

    watch: Watch | None = None
    changed: list[int] = field(default_factory=list)
    inliers: list[dict[str, tuple[str, ...]]] = field(default_factory=list)
    state: State | None = None

    def __call__(self, progress: Progress) -> None:
        """See a step."""
        prediction = progress.prediction
        if len(self.changed) < MOST_CASES and prediction.label != int(prediction.parts["zero_shot"].argmax()):
            self.changed.append(progress.done - 1)
            self.inliers.append(prediction.why.inliers)
        self.state = progress.state
        if self.watch:
            self.watch(progress)


@dataclass
class RunFolder:
    """A run folder while it is written: `add` every run, then `finish`."""

    path: Path
    reports: list[Report] = field(default_factory=list)
    runs: list[dict[str, Any]] = field(default_factory=list)
    sizes: dict[str, int] = field(default_factory=dict)

    @classmethod
    def begin(cls, folder: str | os.PathLike[str]) -> RunFolder:
        """Make the folder; one that holds something already is refused."""
        path = Path(folder)
        try:
            path.mkdir(parents=True, exist_ok=True)
            if any(path.iterdir()):
                raise InputError(f"{str(path)!r} is not empty; give --save a new folder, or remove this one.")
        except OSError as error:
            raise InputError(f"cannot make the folder {str(path)!r}: {error.strerror}.") from error
        return cls(path)

    def add(self, run: Run, seen: Recorder) -> None:
        """Write one run."""
        pack, arrays = run.stream.pack, _arrays(run, seen)
        name = f"run-{len(self.runs):03}.npz"
        self._write(name, _compressed(arrays))
        self.runs.append(
            {
                "file": name,
                "class_names": list(pack.class_names),
                "clip_model": pack.clip_model,
                "aux_model": pack.aux_model,
            }
        )
        self.reports.append(run.report)

    def finish(self) -> None:
        """Write what makes the folder whole; without a run there is nothing to finish."""
        if not self.runs:
            return
        self._write(REPORTS, _json(as_rows(self.reports)))
        self._write(HEAD, _json({"format": FORMAT, "runs": self.runs, "files": self.sizes}))

    def _write(self, name: str, content: bytes) -> None:
        """Have a file on disk whole, or not at all."""
        unfinished = self.path / f".{name}.unfinished"
        try:
            with open(unfinished, "wb") as out:
                out.write(content)
                out.flush()
                os.fsync(out.fileno())
            unfinished.replace(self.path / name)
        except OSError as error:
            raise InputError(f"cannot write {str(self.path / name)!r}: {error.strerror}.") from error
        self.sizes[name] = len(content)


def _json(value: Any) -> bytes:
    return json.dumps(value, indent=1, ensure_ascii=False).encode("utf-8", "backslashreplace")


def _compressed(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    out = io.BytesIO()
    np.savez_compressed(out, allow_pickle=False, **arrays)
    return out.getvalue()


def _arrays(run: Run, seen: Recorder) -> dict[str, NDArray[Any]]:
    pack = run.stream.pack
    arrays: dict[str, NDArray[Any]] = {f"part_{name}": rows for name, rows in run.parts.items()}
    arrays |= {"order": run.order, "scores": run.scores, "text": np.asarray(pack.text, np.float32)}
    if run.labels is not None:
        arrays["labels"] = np.asarray(run.labels, np.int64)
    arrays["counted"] = np.asarray(run.counted)
    for memory in memories(seen.state):
        for part in ("slots", "classes", "samples", "nodes", "sizes"):
            arrays[f"{memory.name}.{part}"] = getattr(memory, part)
    arrays["changed"] = np.array(seen.changed, np.int64)
    place = {name: k for k, name in enumerate(pack.class_names)}
    for space in dict.fromkeys(space for told in seen.inliers for space in told):
        mask = arrays[f"inliers_{space}"] = np.zeros((len(seen.changed), len(place)), bool)
        for row, told in enumerate(seen.inliers):
            mask[row, [place[name] for name in told.get(space, ())]] = True
    steps = chosen_cases(run.scores.argmax(axis=1), arrays["changed"], arrays.get("labels"))
    shown = [(step, picture) for step in steps if (picture := picture_of(pack, int(run.order[step]))) is not None]
    if shown and len({picture.shape for _, picture in shown}) == 1:
        arrays["pictured"] = np.array([step for step, _ in shown], np.int64)
        arrays["pictures"] = np.stack([picture for _, picture in shown])
    return arrays


def chosen_cases(answers: Ints, changed: Ints, labels: Ints | None) -> list[int]:
    """Choose changed steps to show, spread over the stream: as many that came right as that went wrong."""
    if labels is None:
        return _spread(changed)
    right = answers[changed] == labels[changed]
    return sorted(_spread(changed[right]) + _spread(changed[~right]))


def _spread(steps: Ints) -> list[int]:
    if len(steps) <= MOST_PICTURES:
        return [int(step) for step in steps]
    return [int(steps[place]) for place in np.linspace(0, len(steps) - 1, MOST_PICTURES).astype(int)]


def memories(state: State | None) -> Iterator[Memory]:
    """Find every memory of a state: caches by class, and what cliques lie beside them."""
    for name, part in _parts(state):
        if isinstance(part, ClassCache):
            yield _memory(name, part, None)
        elif isinstance(cache := getattr(getattr(part, "memory", None), "cache", None), ClassCache):
            yield _memory(name, cache, getattr(part, "hyper", None))
        elif isinstance(cache := getattr(part, "cache", None), ClassCache):
            yield _memory(name, cache, None)


def _parts(state: State | None) -> Iterator[tuple[str, Any]]:
    for part in fields(state) if state is not None else ():
        value = getattr(state, part.name)
        if is_dataclass(value) and not isinstance(value, Task):
            yield part.name, value


def _memory(name: str, cache: ClassCache, hyper: HyperClasses | None) -> Memory:
    classes, slots = np.nonzero(cache.filled())
    if len(classes) > MOST_SLOTS:
        classes, slots = classes[:MOST_SLOTS], slots[:MOST_SLOTS]
    none = np.zeros(0, np.int64)
    nodes, sizes = (none, none) if hyper is None else (hyper.nodes, hyper.sizes)
    return Memory(name, cache.slots[classes, slots], classes, cache.sample[classes, slots], nodes, sizes)


def is_run_folder(folder: str | os.PathLike[str]) -> bool:
    """Whether a folder looks like one of ours, whole or not."""
    return any((Path(folder) / name).exists() for name in (HEAD, REPORTS, "run-000.npz"))


def read_runs(folder: str | os.PathLike[str]) -> list[SavedRun]:
    """Read every run of a folder, or say what is wrong with it."""
    path = Path(folder)
    head = _read_head(path)
    reports = from_json((path / REPORTS).read_text(encoding="utf-8", errors="surrogateescape"))
    if len(reports) != len(head["runs"]):
        raise InputError(f"{str(path)!r} has {len(reports)} reports for {len(head['runs'])} runs; it is damaged.")
    return [_read_run(path, row, report) for row, report in zip(head["runs"], reports, strict=True)]


def _read_head(path: Path) -> dict[str, Any]:
    again = "run it again: cosmic eval … --save NEW_FOLDER"
    if not path.is_dir():
        raise InputError(f"no run at {str(path)!r}: expected a folder that cosmic eval --save wrote.")
    try:
        head = json.loads((path / HEAD).read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        if is_run_folder(path):
            raise InputError(f"{str(path)!r} was not written to its end: it has no {HEAD}; {again}.") from error
        raise InputError(
            f"{str(path)!r} is no run folder: it has no {HEAD}. Give a folder that cosmic eval --save wrote."
        ) from error
    except (OSError, ValueError) as error:
        raise InputError(f"{str(path / HEAD)!r} cannot be read as JSON: {error}.") from error
    if not isinstance(head, dict) or head.get("format") != FORMAT:
        given = head.get("format") if isinstance(head, dict) else None
        raise InputError(f"{str(path / HEAD)!r} has the format {given!r}; this version reads format {FORMAT}.")
    sizes, runs = head.get("files"), head.get("runs")
    if not isinstance(sizes, dict) or not isinstance(runs, list) or not all(isinstance(row, dict) for row in runs):
        raise InputError(f"{str(path / HEAD)!r} does not list its runs and files; {again}.")
    for name in (REPORTS, *(str(row.get("file")) for row in runs)):
        file = path / Path(name).name  # never out of the folder
        if not file.is_file() or file.stat().st_size != sizes.get(name):
            raise InputError(f"{str(file)!r} is missing or not as long as {HEAD} says: it is damaged; {again}.")
    return head


def _read_run(path: Path, row: dict[str, Any], report: Report) -> SavedRun:
    file = path / Path(str(row["file"])).name
    try:
        with np.load(file, allow_pickle=False) as held:
            arrays = {name: held[name] for name in held.files}
        names = tuple(map(str, row["class_names"]))
        run = SavedRun(
            report=report,
            class_names=names,
            clip_model=str(row.get("clip_model", "")),
            aux_model=str(row.get("aux_model", "")),
            order=arrays["order"],
            scores=arrays["scores"],
            parts={name[5:]: rows for name, rows in arrays.items() if name.startswith("part_")},
            labels=arrays.get("labels"),
            counted=arrays["counted"],
            text=arrays["text"],
            memories=tuple(_read_memories(arrays)),
            changed=arrays["changed"],
            inliers={name[8:]: rows for name, rows in arrays.items() if name.startswith("inliers_")},
            pictured=arrays.get("pictured", np.zeros(0, np.int64)),
            pictures=arrays.get("pictures", np.zeros((0, 1, 1, 3), np.uint8)),
        )
    except (OSError, ValueError, KeyError, EOFError) as error:
        raise InputError(f"{str(file)!r} is no run of ours, or damaged: {error}.") from error
    steps, classes = len(run.order), len(names)
    if run.scores.shape != (steps, classes) or any(rows.shape != run.scores.shape for rows in run.parts.values()):
        raise InputError(f"{str(file)!r} contradicts itself: scores {list(run.scores.shape)} for {classes} classes.")
    return run


def _read_memories(arrays: Mapping[str, NDArray[Any]]) -> Iterator[Memory]:
    for name in [key.removesuffix(".slots") for key in arrays if key.endswith(".slots")]:
        yield Memory(name, *(arrays[f"{name}.{part}"] for part in ("slots", "classes", "samples", "nodes", "sizes")))
