"""Monitor of a session: its answers, and what late labels say about them. No method ever reads it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cosmic_tta.core.errors import InputError, SnapshotError
from cosmic_tta.core.state_tree import arrays_digest, check_arrays, fill, leaves
from cosmic_tta.core.types import Prediction, Sample
from cosmic_tta.sessions import events
from cosmic_tta.sessions.admission import GuardedPrediction
from cosmic_tta.sessions.alarms import Alarm, AlarmPolicy, AlarmState, Signals
from cosmic_tta.sessions.journal.format import Record

WINDOW = 4096  # answers that are remembered, and can still be labelled
MAX_NAME_LENGTH = 200  # characters of a source or a tag

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
HARM_DEVIATIONS = 3.0  # standard deviations by which labels must favour zero-shot before it takes over
MIN_HARM_LABELS = 10  # labelled answers on which zero-shot and the method differ, before they are compared
ALARM_POLICY = AlarmPolicy()
ALARM_PREFIX = "alarms."  # of the alarm state's arrays in a file


class AnswerRecord(NamedTuple):
    """One remembered answer."""

    number: int
    answer: str
    zero_shot: str
    label: str | None
    learned: bool
    confidence: float
    margin: float  # to the second best
    entropy: float  # relative to the largest possible
    source: str | None
    tag: str | None


class Monitor:
    """Counts answers and labels: accuracy against zero-shot, confusions, alarms, and the last answers.

    If labels show that zero-shot is right more often than the method, the monitor falls back to zero-shot.
    """

    def __init__(self) -> None:
        self.counts = dict.fromkeys(COUNTS, 0)
        self.names: list[str] = []  # of all classes that were ever answered or labelled, in order of appearance
        self.answers: dict[int, int] = {}  # index in `names` → how often it was answered
        self.confusions: dict[tuple[int, int], int] = {}  # (label, answer) → how often
        self.sums = {"confidence": 0.0, "entropy": 0.0}
        self.alarm_state: AlarmState | None = None
        self.fallback_since = 0  # the answer whose label showed harm; 0 while the method answers
        self.labels_ignored_until = 0  # labels of answers up to this event no longer count against the method
        self._index_of_name: dict[str, int] = {}
        self._columns = {name: np.zeros(WINDOW, dtype) for name, dtype in COLUMNS.items()}
        self._sources_and_tags: list[list[str | None]] = []  # of each row
        self._row_of_number: dict[int, int] = {}

    def effective_prediction(self, prediction: Prediction) -> Prediction:
        """Return the prediction that is answered: the method's, or zero-shot's after a fallback."""
        if not self.fallback_since:
            return prediction
        return Prediction(prediction.parts["zero_shot"], prediction.parts)

    def answer(
        self,
        number: int,
        sample: Sample,
        guarded: GuardedPrediction,
        source: str | None,
        tag: str | None,
        class_names: Sequence[str],
    ) -> Prediction:
        """Record the answer to a sample, and return it."""
        prediction, reason = self.effective_prediction(guarded.prediction), guarded.reason
        if self.alarm_state is None:
            self.alarm_state = ALARM_POLICY.init(len(class_names), sample.clip.shape[1])
        entropy = ALARM_POLICY.update(self.alarm_state, sample, prediction, number)
        learned, scores = not reason, prediction.scores
        if reason:
            self.counts[reason] += 1
        best = prediction.label
        second = float(np.partition(scores, -2)[-2]) if len(scores) > 1 else 0.0
        answer = self._name_index(class_names[best])
        zero_shot = self._name_index(class_names[int(prediction.parts["zero_shot"].argmax())])
        row = self.counts["answered"] % WINDOW
        if self.counts["answered"] >= WINDOW:
            self._row_of_number.pop(int(self._columns["number"][row]), None)
            self._sources_and_tags[row] = [source, tag]
        else:
            self._sources_and_tags.append([source, tag])
        values = (number, answer, zero_shot, -1, learned, scores[best], float(scores[best]) - second, entropy)
        for name, value in zip(COLUMNS, values, strict=True):
            self._columns[name][row] = value
        self._row_of_number[number] = row
        self.answers[answer] = self.answers.get(answer, 0) + 1
        self.counts["answered"] += 1
        self.counts["learned"] += learned
        self.counts["agreed"] += answer == zero_shot
        self.sums["confidence"] += float(scores[best])
        self.sums["entropy"] += entropy
        return prediction

    def observe(self, number: int, record: Record) -> None:
        """Follow an event that is no sample."""
        if record.kind == events.LABELLED:
            self.label(record.meta["of"], record.meta["class"])
        elif record.kind == events.RESUMED:
            self.clear_fallback(number)
        elif record.kind == events.CLASSES_CHANGED:
            self.rename(record.meta["renamed"])
        elif record.kind in events.REPLACE_EVENTS:
            self.clear_fallback(number)
            self.alarm_state = None

    def check_number(self, number: int) -> None:
        """Refuse a number that no remembered answer has."""
        if number not in self._row_of_number:
            raise InputError(
                f"no remembered answer has the number {number!r}; the last {min(self.counts['answered'], WINDOW)} "
                f"answers can be labelled, each by the number that came with it."
            )

    def label(self, number: int, class_name: str) -> None:
        """Record the true class of an answer; a second label replaces the first."""
        self.check_number(number)
        row, label = self._row_of_number[number], self._name_index(class_name)
        before = int(self._columns["label"][row])
        if before >= 0:
            self._count_label(row, before, -1)
        self._columns["label"][row] = label
        self._count_label(row, label, 1)
        if not self.fallback_since and self._zero_shot_is_better():
            self.fallback_since = number

    def _zero_shot_is_better(self) -> bool:
        """Return whether labels show, beyond chance, that zero-shot is right more often than the method."""
        columns = {name: column[: len(self._sources_and_tags)] for name, column in self._columns.items()}
        label, answer, zero_shot = columns["label"], columns["answer"], columns["zero_shot"]
        counted = (label >= 0) & (columns["number"] > self.labels_ignored_until) & (answer != zero_shot)
        lost = int((counted & (zero_shot == label)).sum())
        won = int((counted & (answer == label)).sum())
        return lost + won >= MIN_HARM_LABELS and lost - won > HARM_DEVIATIONS * (lost + won) ** 0.5

    def clear_fallback(self, number: int) -> None:
        """Let the method answer again; labels of answers up to this event no longer count against it."""
        self.fallback_since, self.labels_ignored_until = 0, number

    def signals(self) -> Signals:
        """Return the signals that the alarms test."""
        return Signals(0.0, 1.0, 1.0, 0.0) if self.alarm_state is None else ALARM_POLICY.signals(self.alarm_state)

    def alarms(self, class_names: Sequence[str]) -> list[Alarm]:
        """Return the active alarms."""
        found = [] if self.alarm_state is None else ALARM_POLICY.alarms(self.alarm_state, class_names)
        if self.fallback_since:
            detail = "late labels show that zero-shot is right more often; it answers until learning is resumed."
            found.append(Alarm("harm", self.fallback_since, detail))
        return found

    def _count_label(self, row: int, label: int, by: int) -> None:
        answer, zero_shot = int(self._columns["answer"][row]), int(self._columns["zero_shot"][row])
        self.counts["labelled"] += by
        self.counts["right"] += by * (answer == label)
        self.counts["zero_shot_right"] += by * (zero_shot == label)
        pair = (label, answer)
        self.confusions[pair] = self.confusions.get(pair, 0) + by
        if not self.confusions[pair]:
            del self.confusions[pair]

    def rename(self, renamed: Mapping[str, str]) -> None:
        """Count renamed classes under their new names, and restart the alarms."""
        self.alarm_state = None
        new_names = {self._index_of_name[old]: new for old, new in renamed.items() if old in self._index_of_name}
        for index, new in new_names.items():
            other = self._index_of_name.get(new)
            if other is not None and other not in new_names:  # an earlier class had that name
                self.names[other] = f"{new} (before)"
            self.names[index] = new
        self._index_of_name = {name: index for index, name in enumerate(self.names)}

    def _name_index(self, name: str) -> int:
        if name not in self._index_of_name:
            self._index_of_name[name] = len(self.names)
            self.names.append(name)
        return self._index_of_name[name]

    @property
    def accuracy(self) -> float | None:
        """Share of the labelled answers that were right."""
        return self.counts["right"] / self.counts["labelled"] if self.counts["labelled"] else None

    @property
    def zero_shot_accuracy(self) -> float | None:
        """The same for zero-shot's answers."""
        return self.counts["zero_shot_right"] / self.counts["labelled"] if self.counts["labelled"] else None

    def recent(self, limit: int = WINDOW) -> Iterator[AnswerRecord]:
        """Yield the last answers, the latest first."""
        answered = self.counts["answered"]
        for back in range(1, min(limit, answered, WINDOW) + 1):
            row = (answered - back) % WINDOW
            value = {name: column[row].item() for name, column in self._columns.items()}
            source, tag = self._sources_and_tags[row]
            yield AnswerRecord(
                value["number"], self.names[value["answer"]], self.names[value["zero_shot"]],
                self.names[value["label"]] if value["label"] >= 0 else None, bool(value["learned"]),
                value["confidence"], value["margin"], value["entropy"], source, tag,
            )  # fmt: skip

    def window(self) -> dict[str, NDArray[Any]]:
        """Return the remembered answers by column, the oldest first; classes are indices in `names`."""
        answered = self.counts["answered"]
        order = np.arange(max(0, answered - WINDOW), answered) % WINDOW
        return {name: column[order] for name, column in self._columns.items()}

    def describe(self) -> dict[str, Any]:
        """Return counts, accuracies, means and confusions, ready for JSON."""
        answered = self.counts["answered"]
        return {
            **self.counts,
            "accuracy": self.accuracy,
            "zero_shot_accuracy": self.zero_shot_accuracy,
            "mean_confidence": self.sums["confidence"] / answered if answered else None,
            "mean_entropy": self.sums["entropy"] / answered if answered else None,
            "answers": {self.names[index]: count for index, count in sorted(self.answers.items())},
            "confusions": [
                {"label": self.names[label], "answer": self.names[answer], "count": count}
                for (label, answer), count in sorted(self.confusions.items())
            ],
        }

    def plain(self) -> dict[str, Any]:
        """Return everything that is not in arrays, ready for JSON."""
        return {
            "counts": self.counts,
            "names": self.names,
            "answers": [[index, count] for index, count in sorted(self.answers.items())],
            "confusions": [[*pair, count] for pair, count in sorted(self.confusions.items())],
            "sums": self.sums,
            "sources_and_tags": self._sources_and_tags,
            "fallback_since": self.fallback_since,
            "labels_ignored_until": self.labels_ignored_until,
        }

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the remembered answers and the alarm state as arrays."""
        used = min(self.counts["answered"], WINDOW)
        arrays = {name: column[:used].copy() for name, column in self._columns.items()}
        if self.alarm_state is not None:
            arrays |= {ALARM_PREFIX + name: np.array(value) for name, value in leaves(self.alarm_state)}
        return arrays

    @classmethod
    def restore(cls, plain: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Monitor:
        """Return the monitor that `plain` and `arrays` describe; contradictions are refused."""
        monitor = cls()
        try:
            monitor.counts = {name: _count(plain["counts"][name]) for name in COUNTS}
            monitor.names = [str(name) for name in plain["names"]]
            monitor.answers = {int(index): _count(count) for index, count in plain["answers"]}
            monitor.confusions = {(int(a), int(b)): _count(count) for a, b, count in plain["confusions"]}
            monitor.sums = {name: float(plain["sums"][name]) for name in monitor.sums}
            monitor._sources_and_tags = [[source, tag] for source, tag in plain["sources_and_tags"]]
            monitor.fallback_since = _count(plain["fallback_since"])
            monitor.labels_ignored_until = _count(plain["labels_ignored_until"])
        except (KeyError, TypeError, ValueError) as error:
            raise SnapshotError("the file is damaged: the values of its monitor are invalid.") from error
        monitor._index_of_name = {name: index for index, name in enumerate(monitor.names)}
        alarms = {name.removeprefix(ALARM_PREFIX): a for name, a in arrays.items() if name.startswith(ALARM_PREFIX)}
        if alarms:
            monitor.alarm_state = _restored_alarms(alarms)
        monitor._restore_columns({name: a for name, a in arrays.items() if not name.startswith(ALARM_PREFIX)})
        return monitor

    def _restore_columns(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        used = min(self.counts["answered"], WINDOW)
        valid = set(arrays) == set(COLUMNS) and len(self._sources_and_tags) == used
        for name, dtype in COLUMNS.items():
            valid = valid and arrays[name].dtype == dtype and arrays[name].shape == (used,)
        if not valid:
            raise SnapshotError("the file is damaged: the answers of its monitor have wrong types or shapes.")
        indices = np.concatenate([arrays["answer"], arrays["zero_shot"], arrays["label"]])
        if (indices >= len(self.names)).any() or (indices < -1).any():
            raise SnapshotError("the file is damaged: its monitor has answers of unknown classes.")
        for name in COLUMNS:
            self._columns[name][:used] = arrays[name]
        self._row_of_number = {int(number): row for row, number in enumerate(arrays["number"])}

    def digest(self) -> str:
        """Return a fingerprint of the monitor."""
        plain = json.dumps(self.plain(), sort_keys=True, ensure_ascii=False)
        return arrays_digest({**self.arrays(), "plain": np.frombuffer(plain.encode(), np.uint8)})


def _restored_alarms(arrays: Mapping[str, NDArray[Any]]) -> AlarmState:
    class_means = arrays.get("class_means")
    if class_means is None or class_means.ndim != 2:
        raise SnapshotError("the file is damaged: the state of its alarms has wrong shapes.")
    state = ALARM_POLICY.init(*class_means.shape)
    check_arrays("the monitor", arrays, state)
    fill("the monitor", state, arrays)
    return state


def _count(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError
    return value
