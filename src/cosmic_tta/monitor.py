"""Monitor: what a session answered and what late labels say of it. No method ever sees any of this."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cosmic_tta.alarms import Alarm, Signals, Watch, Watched
from cosmic_tta.core import Prediction, Sample
from cosmic_tta.errors import InputError, SnapshotError
from cosmic_tta.guards import Judged
from cosmic_tta.snapshot import check_arrays, fill
from cosmic_tta.state import arrays_digest, leaves

WINDOW = 4096  # answers that are remembered, and can still be labelled
NAME_LENGTH = 200  # of a source or a tag

COLUMNS = {
    "number": np.int64,
    "answer": np.int32,
    "zero_shot": np.int32,
    "label": np.int32,
    "learned": np.int32,
    "confidence": np.float32,
    "margin": np.float32,
    "entropy": np.float32,
}
COUNTS = ("answered", "learned", "labelled", "right", "zero_shot_right", "agreed", "paused", "duplicate", "quota")
HARM = 3.0  # standard deviations by which late labels must speak against adaptation before it is given up
LEAST_HARM = 10  # labelled answers on which zero-shot and the method differ, before anything is made of them
WATCH = Watch()


class Remembered(NamedTuple):
    """One answer of the last few thousand."""

    number: int
    answer: str
    zero_shot: str
    label: str | None
    learned: bool
    confidence: float
    margin: float  # to the second best
    entropy: float  # as a share of the largest
    source: str | None
    tag: str | None


class Monitor:
    """A fold of answers and labels: counts, running accuracy against zero-shot, confusions, the last answers."""

    def __init__(self) -> None:
        self.counts = dict.fromkeys(COUNTS, 0)
        self.names: list[str] = []  # of classes that were ever answered or told, in order of appearance
        self.answers: dict[int, int] = {}  # class → how often it was answered
        self.confusions: dict[tuple[int, int], int] = {}  # (told, answered) → how often
        self.sums = {"confidence": 0.0, "entropy": 0.0}
        self._places: dict[str, int] = {}
        self._rows = {name: np.zeros(WINDOW, kind) for name, kind in COLUMNS.items()}
        self._told: list[list[str | None]] = []  # (source, tag) of each row
        self._at: dict[int, int] = {}  # number → row
        self.watched: Watched | None = None  # what the alarms remember
        self.fallen = 0  # the answer whose label showed harm: zero-shot answers since; 0: it does not
        self.forgiven = 0  # labels of answers up to this event no longer speak against the method

    def given(self, prediction: Prediction) -> Prediction:
        """Return what is answered: the prediction, or zero-shot's where adaptation was given up."""
        if not self.fallen:
            return prediction
        return Prediction(prediction.parts["zero_shot"], prediction.parts)  # what was learned has no part in it

    def answer(
        self,
        number: int,
        sample: Sample,
        judged: Judged,
        source: str | None,
        tag: str | None,
        class_names: Sequence[str],
    ) -> Prediction:
        """Take note of an answer, and return it."""
        prediction, reason = self.given(judged.prediction), judged.reason
        if self.watched is None:
            self.watched = WATCH.init(len(class_names), sample.clip.shape[1])
        entropy = WATCH.see(self.watched, sample, prediction, number)
        learned, scores = not reason, prediction.scores
        if reason:
            self.counts[reason] += 1
        best = prediction.label
        second = float(np.partition(scores, -2)[-2]) if len(scores) > 1 else 0.0
        answer = self._place(class_names[best])
        zero_shot = self._place(class_names[int(prediction.parts["zero_shot"].argmax())])
        row = self.counts["answered"] % WINDOW
        if self.counts["answered"] >= WINDOW:
            self._at.pop(int(self._rows["number"][row]), None)
            self._told[row] = [source, tag]
        else:
            self._told.append([source, tag])
        values = (number, answer, zero_shot, -1, learned, scores[best], float(scores[best]) - second, entropy)
        for name, value in zip(COLUMNS, values, strict=True):
            self._rows[name][row] = value
        self._at[number] = row
        self.answers[answer] = self.answers.get(answer, 0) + 1
        self.counts["answered"] += 1
        self.counts["learned"] += learned
        self.counts["agreed"] += answer == zero_shot
        self.sums["confidence"] += float(scores[best])
        self.sums["entropy"] += entropy
        return prediction

    def check_number(self, number: int) -> None:
        """Refuse a number that is none of a remembered answer."""
        if number not in self._at:
            raise InputError(
                f"no remembered answer has the number {number!r}; the last {min(self.counts['answered'], WINDOW)} "
                f"answers can be labelled, each by the number that came with it."
            )

    def label(self, number: int, class_name: str) -> None:
        """Take note of what a picture really was; said again, the last word counts."""
        self.check_number(number)
        row, label = self._at[number], self._place(class_name)
        before = int(self._rows["label"][row])
        if before >= 0:
            self._count(row, before, -1)
        self._rows["label"][row] = label
        self._count(row, label, 1)
        if not self.fallen and self._harmed():
            self.fallen = number

    def _harmed(self) -> bool:
        """Whether labels show, beyond chance, that zero-shot would have been right more often."""
        rows = {name: column[: len(self._told)] for name, column in self._rows.items()}
        told = (rows["label"] >= 0) & (rows["number"] > self.forgiven) & (rows["answer"] != rows["zero_shot"])
        lost = int((told & (rows["zero_shot"] == rows["label"])).sum())
        won = int((told & (rows["answer"] == rows["label"])).sum())
        return lost + won >= LEAST_HARM and lost - won > HARM * (lost + won) ** 0.5

    def forgive(self, number: int) -> None:
        """What was learned is trusted again: the method answers, and is judged from here on."""
        self.fallen, self.forgiven = 0, number

    def turn(self, number: int) -> None:
        """What was learned is something else now: the alarms begin anew."""
        self.forgive(number)
        self.watched = None

    def signals(self) -> Signals:
        """Return what the alarms look at."""
        return Signals(0.0, 1.0, 1.0, 0.0) if self.watched is None else WATCH.signals(self.watched)

    def alarms(self, class_names: Sequence[str]) -> list[Alarm]:
        """Return the alarms that are on."""
        found = [] if self.watched is None else WATCH.alarms(self.watched, class_names)
        if self.fallen:
            detail = "late labels show that zero-shot is right more often; it answers now, until learning is resumed."
            found.append(Alarm("harm", self.fallen, detail))
        return found

    def _count(self, row: int, label: int, by: int) -> None:
        answer, zero_shot = int(self._rows["answer"][row]), int(self._rows["zero_shot"][row])
        self.counts["labelled"] += by
        self.counts["right"] += by * (answer == label)
        self.counts["zero_shot_right"] += by * (zero_shot == label)
        pair = (label, answer)
        self.confusions[pair] = self.confusions.get(pair, 0) + by
        if not self.confusions[pair]:
            del self.confusions[pair]

    def rename(self, renamed: Mapping[str, str]) -> None:
        """Go on counting for a class under its new name; alarms begin anew, the classes being others."""
        self.watched = None
        rows = {self._places[old]: new for old, new in renamed.items() if old in self._places}
        for place, new in rows.items():
            if new in self._places and self._places[new] not in rows:  # one who had that name before
                other = self._places[new]
                self.names[other] = f"{new} (before)"
            self.names[place] = new
        self._places = {name: place for place, name in enumerate(self.names)}

    def _place(self, name: str) -> int:
        if name not in self._places:
            self._places[name] = len(self.names)
            self.names.append(name)
        return self._places[name]

    @property
    def accuracy(self) -> float | None:
        """Of the labelled answers."""
        return self.counts["right"] / self.counts["labelled"] if self.counts["labelled"] else None

    @property
    def zero_shot_accuracy(self) -> float | None:
        """What zero-shot would have reached on them."""
        return self.counts["zero_shot_right"] / self.counts["labelled"] if self.counts["labelled"] else None

    def recent(self, most: int = WINDOW) -> Iterator[Remembered]:
        """Yield the last answers, the latest first."""
        answered = self.counts["answered"]
        for back in range(1, min(most, answered, WINDOW) + 1):
            row = (answered - back) % WINDOW
            get = {name: column[row].item() for name, column in self._rows.items()}
            source, tag = self._told[row]
            yield Remembered(
                get["number"], self.names[get["answer"]], self.names[get["zero_shot"]],
                self.names[get["label"]] if get["label"] >= 0 else None, bool(get["learned"]),
                get["confidence"], get["margin"], get["entropy"], source, tag,
            )  # fmt: skip

    def window(self) -> dict[str, NDArray[Any]]:
        """Return the remembered answers column by column, the oldest first; classes are places in `names`."""
        answered = self.counts["answered"]
        order = np.arange(max(0, answered - WINDOW), answered) % WINDOW
        return {name: column[order] for name, column in self._rows.items()}

    def describe(self) -> dict[str, Any]:
        """Return counts, accuracies, means and confusions as plain values, ready for JSON."""
        answered = self.counts["answered"]
        return {
            **self.counts,
            "accuracy": self.accuracy,
            "zero_shot_accuracy": self.zero_shot_accuracy,
            "mean_confidence": self.sums["confidence"] / answered if answered else None,
            "mean_entropy": self.sums["entropy"] / answered if answered else None,
            "answers": {self.names[place]: count for place, count in sorted(self.answers.items())},
            "confusions": [
                {"label": self.names[told], "answer": self.names[said], "count": count}
                for (told, said), count in sorted(self.confusions.items())
            ],
        }

    def plain(self) -> dict[str, Any]:
        """Return what is not in arrays, ready for JSON."""
        return {
            "counts": self.counts,
            "names": self.names,
            "answers": [[place, count] for place, count in sorted(self.answers.items())],
            "confusions": [[*pair, count] for pair, count in sorted(self.confusions.items())],
            "sums": self.sums,
            "told": self._told,
            "fallen": self.fallen,
            "forgiven": self.forgiven,
        }

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the remembered answers, as far as there are any."""
        used = min(self.counts["answered"], WINDOW)
        rows = {name: column[:used].copy() for name, column in self._rows.items()}
        if self.watched is not None:
            rows |= {f"watch.{name}": np.array(value) for name, value in leaves(self.watched)}
        return rows

    @classmethod
    def restore(cls, plain: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Monitor:
        """Make a monitor from what `plain` and `arrays` gave; what cannot be is refused."""
        monitor = cls()
        try:
            monitor.counts = {name: _count(plain["counts"][name]) for name in COUNTS}
            monitor.names = [str(name) for name in plain["names"]]
            monitor.answers = {int(place): _count(count) for place, count in plain["answers"]}
            monitor.confusions = {(int(a), int(b)): _count(count) for a, b, count in plain["confusions"]}
            monitor.sums = {name: float(plain["sums"][name]) for name in monitor.sums}
            monitor._told = [[source, tag] for source, tag in plain["told"]]
            monitor.fallen, monitor.forgiven = _count(plain["fallen"]), _count(plain["forgiven"])
        except (KeyError, TypeError, ValueError) as error:
            raise SnapshotError("the saved monitor makes no sense; the file is damaged.") from error
        monitor._places = {name: place for place, name in enumerate(monitor.names)}
        watch = {name.removeprefix("watch."): rows for name, rows in arrays.items() if name.startswith("watch.")}
        arrays = {name: rows for name, rows in arrays.items() if not name.startswith("watch.")}
        if watch:
            monitor.watched = _restored(watch)
        used = min(monitor.counts["answered"], WINDOW)
        sound = set(arrays) == set(COLUMNS) and len(monitor._told) == used
        for name, kind in COLUMNS.items():
            sound = sound and arrays[name].dtype == kind and arrays[name].shape == (used,)
        if not sound:
            raise SnapshotError("the saved monitor's answers have the wrong form; the file is damaged.")
        for name in COLUMNS:
            monitor._rows[name][:used] = arrays[name]
        places = np.concatenate([arrays["answer"], arrays["zero_shot"], arrays["label"]])
        if (places >= len(monitor.names)).any() or (places < -1).any():
            raise SnapshotError("the saved monitor speaks of classes that never were; the file is damaged.")
        monitor._at = {int(number): row for row, number in enumerate(arrays["number"])}
        return monitor

    def digest(self) -> str:
        """Return a fingerprint of all of it."""
        plain = json.dumps(self.plain(), sort_keys=True, ensure_ascii=False)
        return arrays_digest({**self.arrays(), "plain": np.frombuffer(plain.encode(), np.uint8)})


def _restored(arrays: Mapping[str, NDArray[Any]]) -> Watched:
    centre = arrays.get("centre")
    if centre is None or centre.ndim != 2:
        raise SnapshotError("what the alarms remember has the wrong form; the file is damaged.")
    watched = WATCH.init(*centre.shape)
    check_arrays("the monitor", arrays, watched)
    fill("the monitor", watched, arrays)
    return watched


def _count(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError
    return value
