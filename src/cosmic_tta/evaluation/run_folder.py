"""Run folders: everything that `cosmic report` shows of some runs, as plain arrays and JSON.

Format 2 has these files:

- `reports.json`: the report of every run.
- `run-NNN.npz`, one per run: the stream (`order`, `scores`, `part_<name>`, `labels`, `counted`), the class texts
  (`text`), the memories of the last state (`<name>.slots`, `.classes`, `.samples`, `.nodes`, `.sizes`), the steps
  where the prediction differs from zero-shot (`changed_steps`, `inliers_<space>`), and images of some of them
  (`image_steps`, `images`).
- `run.json`, written last: the format, the runs, and the size of every file. A folder without it is incomplete.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosmic_tta.core.arrays import Array, Bools, Ints
from cosmic_tta.core.errors import InputError
from cosmic_tta.core.files import write_atomic
from cosmic_tta.core.method import Method
from cosmic_tta.core.types import State
from cosmic_tta.evaluation.evaluator import EvaluationProgress, EvaluationRun
from cosmic_tta.evaluation.report import Report, as_rows, from_json
from cosmic_tta.features.source_images import image_of_row

FORMAT = 2
HEAD, REPORTS = "run.json", "reports.json"
AGAIN = "run it again: cosmic eval … --save NEW_FOLDER"
MAX_CHANGED_STEPS = 2000  # that are recorded with their inliers
MAX_IMAGES = 24  # of correct changed steps, and as many of wrong ones
MAX_SLOTS = 20_000  # kept samples of one memory that are written
Watch = Callable[[EvaluationProgress], None]


@dataclass(frozen=True, eq=False)
class SavedMemory:
    """One memory of the last state: its kept samples, and the cliques of its last graph."""

    name: str
    slots: Array  # [m, D]
    classes: Ints  # [m] the class of each kept sample
    samples: Ints  # [m] its step in the stream
    nodes: Ints  # the nodes of all cliques, concatenated; empty without a graph
    sizes: Ints  # nodes per clique

    @property
    def cliques(self) -> list[Ints]:
        """The nodes of each clique. In the CLIP space the first nodes are the texts, then the class centres."""
        return np.split(self.nodes, np.cumsum(self.sizes)[:-1]) if len(self.sizes) else []


@dataclass(frozen=True, eq=False)
class SavedRun:
    """One run of a run folder.

    Example:
        >>> from dataclasses import fields
        >>> [field.name for field in fields(SavedRun)][0]
        'report'
    """

    report: Report
    class_names: tuple[str, ...]
    clip_model: str
    aux_model: str
    order: Ints  # [n]
    scores: Array  # [n, K]
    parts: Mapping[str, Array]  # [n, K] each
    labels: Ints | None  # [n]; below 0 where the class is not in the task
    counted: Bools  # [n] whether accuracy counts the step
    text: Array  # [K, D]
    memories: tuple[SavedMemory, ...]
    changed_steps: Ints  # [c] steps where the prediction differs from zero-shot
    inliers: Mapping[str, Bools]  # by feature space, [c, K]
    image_steps: Ints  # [p] steps that have an image
    images: NDArray[np.uint8]  # [p, height, width, 3]

    @property
    def answers(self) -> Ints:
        """The predicted class of each step, [n]."""
        best: Ints = self.scores.argmax(axis=1)
        return best


@dataclass
class RunRecorder:
    """Records what a run folder needs and a run does not keep. Pass it as `watch` to `run_evaluation`.

    Args:
        watch: Another function to call after each step.

    Example:
        >>> from cosmic_tta.evaluation import run_evaluation
        >>> from cosmic_tta.features.synthetic import superclass_pack
        >>> from cosmic_tta.methods import make_method
        >>> recorder = RunRecorder()
        >>> run = run_evaluation(make_method("zero_shot"), superclass_pack(images=20), watch=recorder)
        >>> recorder.changed_steps
        []
    """

    watch: Watch | None = None
    changed_steps: list[int] = field(default_factory=list)
    inliers: list[dict[str, tuple[str, ...]]] = field(default_factory=list)
    last: EvaluationProgress | None = None

    def __call__(self, progress: EvaluationProgress) -> None:
        """Record a step."""
        prediction = progress.prediction
        if len(self.changed_steps) < MAX_CHANGED_STEPS and prediction.label != int(
            prediction.parts["zero_shot"].argmax()
        ):
            self.changed_steps.append(progress.done - 1)
            self.inliers.append(prediction.why.inliers)
        self.last = progress
        if self.watch:
            self.watch(progress)


@dataclass
class RunFolder:
    """Writes a run folder: `begin` it, `add` every run, then `finish`.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as temporary:
        ...     folder = RunFolder.begin(f"{temporary}/run")  # then `folder.add(run, recorder)` per run
        ...     folder.path.name
        'run'
    """

    path: Path
    reports: list[Report] = field(default_factory=list)
    runs: list[dict[str, Any]] = field(default_factory=list)
    sizes: dict[str, int] = field(default_factory=dict)

    @classmethod
    def begin(cls, folder: str | os.PathLike[str]) -> RunFolder:
        """Make the folder. A folder that is not empty is refused."""
        path = Path(folder)
        try:
            path.mkdir(parents=True, exist_ok=True)
            if any(path.iterdir()):
                raise InputError(f"{str(path)!r} is not empty; give --save a new folder, or remove this one.")
        except OSError as error:
            raise InputError(f"cannot make the folder {str(path)!r}: {error.strerror}.") from error
        return cls(path)

    def add(self, run: EvaluationRun, recorder: RunRecorder) -> None:
        """Write one run."""
        pack, arrays = run.stream.pack, _arrays(run, recorder)
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
        """Write the files that complete the folder. Without a run there is nothing to write."""
        if not self.runs:
            return
        self._write(REPORTS, _json(as_rows(self.reports)))
        self._write(HEAD, _json({"format": FORMAT, "runs": self.runs, "files": self.sizes}))

    def _write(self, name: str, content: bytes) -> None:
        write_atomic(self.path / name, content)
        self.sizes[name] = len(content)


def _json(value: Any) -> bytes:
    return json.dumps(value, indent=1, ensure_ascii=False).encode("utf-8", "backslashreplace")


def _compressed(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    out = io.BytesIO()
    np.savez_compressed(out, allow_pickle=False, **arrays)
    return out.getvalue()


def _arrays(run: EvaluationRun, recorder: RunRecorder) -> dict[str, NDArray[Any]]:
    pack = run.stream.pack
    arrays: dict[str, NDArray[Any]] = {f"part_{name}": rows for name, rows in run.parts.items()}
    arrays |= {"order": run.order, "scores": run.scores, "text": np.asarray(pack.text, np.float32)}
    if run.labels is not None:
        arrays["labels"] = np.asarray(run.labels, np.int64)
    arrays["counted"] = np.asarray(run.counted)
    for memory in saved_memories(recorder.last.method, recorder.last.state) if recorder.last else ():
        for part in ("slots", "classes", "samples", "nodes", "sizes"):
            arrays[f"{memory.name}.{part}"] = getattr(memory, part)
    arrays["changed_steps"] = np.array(recorder.changed_steps, np.int64)
    class_index = {name: k for k, name in enumerate(pack.class_names)}
    for space in dict.fromkeys(space for inliers in recorder.inliers for space in inliers):
        mask = arrays[f"inliers_{space}"] = np.zeros((len(recorder.inliers), len(class_index)), bool)
        for row, inliers in enumerate(recorder.inliers):
            mask[row, [class_index[name] for name in inliers.get(space, ())]] = True
    steps = select_changed_steps(run.scores.argmax(axis=1), arrays["changed_steps"], arrays.get("labels"))
    shown = [(step, image) for step in steps if (image := image_of_row(pack, int(run.order[step]))) is not None]
    if shown and len({image.shape for _, image in shown}) == 1:
        arrays["image_steps"] = np.array([step for step, _ in shown], np.int64)
        arrays["images"] = np.stack([image for _, image in shown])
    return arrays


def select_changed_steps(answers: Ints, changed_steps: Ints, labels: Ints | None) -> list[int]:
    """Select changed steps to show, spread over the stream: up to MAX_IMAGES correct ones and as many wrong ones."""
    if labels is None:
        return _spread(changed_steps)
    correct = answers[changed_steps] == labels[changed_steps]
    return sorted(_spread(changed_steps[correct]) + _spread(changed_steps[~correct]))


def _spread(steps: Ints) -> list[int]:
    if len(steps) <= MAX_IMAGES:
        return [int(step) for step in steps]
    return [int(step) for step in steps[np.linspace(0, len(steps) - 1, MAX_IMAGES).astype(int)]]


def saved_memories(method: Method[Any], state: State) -> list[SavedMemory]:
    """Return the memories of a state that hold samples of the stream, with at most MAX_SLOTS samples each."""
    return [
        SavedMemory(
            memory.name,
            memory.features[:MAX_SLOTS],
            memory.classes[:MAX_SLOTS],
            memory.samples[:MAX_SLOTS],
            memory.clique_nodes,
            memory.clique_sizes,
        )
        for memory in method.memories(state)
        if memory.samples is not None
    ]


def is_run_folder(folder: str | os.PathLike[str]) -> bool:
    """Return whether a folder looks like a run folder, complete or not."""
    return any((Path(folder) / name).exists() for name in (HEAD, REPORTS, "run-000.npz"))


def read_runs(folder: str | os.PathLike[str]) -> list[SavedRun]:
    """Read every run of a run folder.

    Raises:
        InputError: The folder is missing, incomplete, damaged or of another format.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> from cosmic_tta.evaluation import run_evaluation
        >>> from cosmic_tta.features.synthetic import superclass_pack
        >>> from cosmic_tta.methods import make_method
        >>> recorder = RunRecorder()
        >>> run = run_evaluation(make_method("tda"), superclass_pack(images=20), watch=recorder)
        >>> with TemporaryDirectory() as name:
        ...     folder = RunFolder.begin(f"{name}/run")
        ...     folder.add(run, recorder)
        ...     folder.finish()
        ...     [saved.report.method for saved in read_runs(f"{name}/run")]
        ['tda']
    """
    path = Path(folder)
    head = _read_head(path)
    reports = from_json((path / REPORTS).read_text(encoding="utf-8", errors="surrogateescape"))
    if len(reports) != len(head["runs"]):
        raise InputError(f"{str(path)!r} has {len(reports)} reports for {len(head['runs'])} runs; it is damaged.")
    return [_read_run(path, row, report) for row, report in zip(head["runs"], reports, strict=True)]


def _read_head(path: Path) -> dict[str, Any]:
    if not path.is_dir():
        raise InputError(f"no run at {str(path)!r}: expected a folder that cosmic eval --save wrote.")
    try:
        head = json.loads((path / HEAD).read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        if is_run_folder(path):
            raise InputError(f"{str(path)!r} is incomplete: it has no {HEAD}; {AGAIN}.") from error
        raise InputError(
            f"{str(path)!r} is no run folder: it has no {HEAD}. Give a folder that cosmic eval --save wrote."
        ) from error
    except (OSError, ValueError) as error:
        raise InputError(f"{str(path / HEAD)!r} cannot be read as JSON: {error}.") from error
    if not isinstance(head, dict) or head.get("format") != FORMAT:
        found = head.get("format") if isinstance(head, dict) else None
        raise InputError(f"{str(path / HEAD)!r} has format {found!r}; this version reads format {FORMAT}; {AGAIN}.")
    sizes, runs = head.get("files"), head.get("runs")
    if not isinstance(sizes, dict) or not isinstance(runs, list) or not all(isinstance(row, dict) for row in runs):
        raise InputError(f"{str(path / HEAD)!r} does not list its runs and files; {AGAIN}.")
    for name in (REPORTS, *(str(row.get("file")) for row in runs)):
        file = path / Path(name).name  # a name with a path must not leave the folder
        if not file.is_file() or file.stat().st_size != sizes.get(name):
            raise InputError(f"{str(file)!r} is missing, or its size is not the one in {HEAD}; {AGAIN}.")
    return head


def _read_run(path: Path, row: dict[str, Any], report: Report) -> SavedRun:
    file = path / Path(str(row["file"])).name
    try:
        with np.load(file, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
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
            changed_steps=arrays["changed_steps"],
            inliers={name[8:]: rows for name, rows in arrays.items() if name.startswith("inliers_")},
            image_steps=arrays.get("image_steps", np.zeros(0, np.int64)),
            images=arrays.get("images", np.zeros((0, 1, 1, 3), np.uint8)),
        )
    except (OSError, ValueError, KeyError, EOFError) as error:
        raise InputError(f"{str(file)!r} is damaged, or not a file of a run folder: {error}.") from error
    steps, classes = len(run.order), len(names)
    if run.scores.shape != (steps, classes) or any(rows.shape != run.scores.shape for rows in run.parts.values()):
        raise InputError(
            f"{str(file)!r} is damaged: its scores have the shape {list(run.scores.shape)}, expected "
            f"{[steps, classes]}; {AGAIN}."
        )
    return run


def _read_memories(arrays: Mapping[str, NDArray[Any]]) -> Iterator[SavedMemory]:
    for name in [key.removesuffix(".slots") for key in arrays if key.endswith(".slots")]:
        yield SavedMemory(
            name, *(arrays[f"{name}.{part}"] for part in ("slots", "classes", "samples", "nodes", "sizes"))
        )
