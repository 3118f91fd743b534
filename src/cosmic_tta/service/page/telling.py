"""What the page is told of a stream: bounded, whatever the number of classes and answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from cosmic_tta.core import Prediction, State, Task
from cosmic_tta.explanation import Explanation
from cosmic_tta.monitor import Monitor, Remembered
from cosmic_tta.ops import dots
from cosmic_tta.service.health import guarded
from cosmic_tta.service.page.holding import holdings
from cosmic_tta.service.page.thumbnails import Thumbnails
from cosmic_tta.service.refusals import placeless
from cosmic_tta.session import Session

POINTS = 240  # of a curve
SMOOTH = 20  # answers that a point is the mean of
UNSURE, AMONG = 12, 400  # items to label, out of so many late answers
TOP = 12  # rows of a list
MEMBERS = 10  # of a hyper-class
KIN = 7  # classes near another by their texts
Json = dict[str, Any]


def overview(session: Session, thumbnails: Thumbnails) -> Json:
    """Tell how a stream does."""
    monitor, shown = session.monitor, thumbnails.numbers()
    sources = sorted(session.sources.items(), key=lambda one: -one[1][1])
    return {
        "number": session.number,
        "seen": session.seen,
        "paused": session.paused,
        "warnings": [placeless(one) for one in session.warnings],
        "counts": dict(monitor.counts),
        "accuracy": monitor.accuracy,
        "zero_shot_accuracy": monitor.zero_shot_accuracy,
        "curves": curves(monitor),
        "confusions": confusions(monitor),
        "unsure": [_item(one, shown) for one in unsure(monitor)],
        "sources": [{"name": name, "first": first, "steps": steps} for name, (first, steps) in sources[: 4 * TOP]],
        "snapshots": [{"id": one.id, "number": one.number, "note": one.note} for one in session.snapshots()],
        **guarded(session),
    }


def curves(monitor: Monitor) -> Json:
    """Return confidence and entropy over the remembered answers, and accuracies over the labelled ones."""
    window = monitor.window()
    numbers, label = window["number"], window["label"]
    told = np.flatnonzero(label >= 0)
    accuracy = {}
    for name, column, count in (("accuracy", "answer", "right"), ("zero_shot", "zero_shot", "zero_shot_right")):
        right = np.cumsum(window[column][told] == label[told])
        before = monitor.counts["labelled"] - len(told), monitor.counts[count] - (int(right[-1]) if len(told) else 0)
        accuracy[name] = (before[1] + right) / (before[0] + np.arange(1, len(told) + 1))
    answers, labelled = _places(len(numbers)), _places(len(told))
    return {
        "step": numbers[answers].tolist(),
        **{name: _rounded(_running(window[name])[answers]) for name in ("confidence", "entropy")},
        "labelled": numbers[told][labelled].tolist(),
        **{name: _rounded(values[labelled]) for name, values in accuracy.items()},
    }


def _places(count: int) -> Any:
    """At most so many places, evenly spread, the last among them."""
    return np.unique(np.linspace(0, count - 1, min(count, POINTS)).round().astype(int)) if count else np.zeros(0, int)


def _running(values: Any) -> Any:
    """The mean of each value and those right before it."""
    sums = np.concatenate([[0.0], np.cumsum(values, dtype=np.float64)])
    end = np.arange(1, len(values) + 1)
    start = np.maximum(0, end - SMOOTH)
    return (sums[end] - sums[start]) / (end - start)


def _rounded(values: Any) -> list[float]:
    return [round(float(value), 4) for value in values]


def confusions(monitor: Monitor) -> list[Json]:
    """Return the pairs that were most often taken for one another."""
    wrong = sorted(((count, pair) for pair, count in monitor.confusions.items() if pair[0] != pair[1]), reverse=True)
    names = monitor.names
    return [{"label": names[a], "answer": names[b], "count": count} for count, (a, b) in wrong[:TOP]]


def unsure(monitor: Monitor) -> list[Remembered]:
    """Return late answers without a label, those of the smallest margin first."""
    open_ones = [one for one in monitor.recent(AMONG) if one.label is None]
    return sorted(open_ones, key=lambda one: one.margin)[:UNSURE]


def _item(one: Remembered, shown: frozenset[int]) -> Json:
    told = {name: getattr(one, name) for name in ("number", "answer", "zero_shot", "learned", "source")}
    told |= {name: round(getattr(one, name), 4) for name in ("confidence", "margin", "entropy")}
    return told | {"picture": one.number in shown}


def memory(session: Session, thumbnails: Thumbnails, offset: int, count: int, find: str) -> Json:
    """Tell what is held of each class, those answered most first; a page of them."""
    names, monitor = session.task.class_names, session.monitor
    answered = {monitor.names[place]: times for place, times in monitor.answers.items()}
    held = holdings(session.state)
    fills = [np.bincount(one.label, minlength=len(names)) for one in held]
    word = find.casefold()
    order = [k for k, name in enumerate(names) if word in name.casefold()]
    order.sort(key=lambda k: (-answered.get(names[k], 0), -int(fills[0][k]) if fills else 0, k))
    classes = []
    for k in order[offset : offset + count]:
        pictures: dict[int, None] = {}
        for one in held:
            pictures |= dict.fromkeys(step for step in thumbnails.steps_of(one.of(k)) if step is not None)
        classes.append(
            {
                "name": names[k],
                "answered": answered.get(names[k], 0),
                "held": [int(fill[k]) for fill in fills],
                "pictures": list(pictures)[: 2 * TOP],
            }
        )
    return {
        "classes": classes,
        "found": len(order),
        "total": len(names),
        "filled": [int((fill > 0).sum()) for fill in fills],
        "memories": [{"name": one.name, "room": one.room} for one in held],
    }


def answered(
    step: int | None, learned: bool, reason: str, prediction: Prediction, names: Sequence[str], state: State | None,
    thumbnails: Thumbnails,
) -> Json:  # fmt: skip
    """Tell an answer and what spoke for it."""
    order = np.argsort(-prediction.scores, kind="stable")[:8]
    why = prediction.why
    return {
        "step": step,
        "learned": learned,
        "reason": reason,
        "answers": [{"label": names[k], "score": round(float(prediction.scores[k]), 4)} for k in order],
        "zero_shot": names[int(prediction.parts["zero_shot"].argmax())],
        "parts": {name: names[int(scores.argmax())] for name, scores in prediction.parts.items()},
        "hyper_classes": {space: _cliques(chosen) for space, chosen in why.hyper_classes.items()},
        "inliers": {space: [len(inside), list(inside[: 2 * TOP])] for space, inside in why.inliers.items()},
        "reliability": {space: round(share, 3) for space, share in why.reliability.items()},
        "votes": _votes(why, names[order[0]], names, state, thumbnails),
    }


def _cliques(chosen: Sequence[Any]) -> list[Json]:
    return [
        {"members": list(one.members[:MEMBERS]), "size": len(one.members), "affinity": round(one.affinity, 3)}
        for one in chosen[:TOP]
    ]


def _votes(
    why: Explanation, answer: str, names: Sequence[str], state: State | None, thumbnails: Thumbnails
) -> dict[str, list[Json]]:
    """The samples that spoke for an answer, with the steps whose pictures they are."""
    told: dict[str, list[Json]] = {}
    held = {one.name: one for one in holdings(state)} if state is not None and answer in names else {}
    for space, cast in why.votes.items():
        steps: Mapping[int, int | None] = {}
        one = held.get(space)
        if one is not None and one.sample is not None:
            mine = one.label == names.index(answer)
            steps = dict(zip(one.sample[mine].tolist(), thumbnails.steps_of(one.rows[mine]), strict=True))
        told[space] = [
            {"label": vote.label, "weight": round(vote.weight, 3), "picture": steps.get(vote.sample)}
            for vote in cast[:TOP]
        ]
    return told


def kin(task: Task, name: str) -> Json:
    """Return the classes whose texts are nearest to a class's, and how near they are to each other."""
    centre = task.class_names.index(name)
    text = task.unit_text
    near = dots(text, text[centre][None])[0]
    order = [centre, *(int(k) for k in np.argsort(-near, kind="stable") if k != centre)][: KIN + 1]
    pairs = [
        {"between": [a, b], "cosine": round(float(text[order[a]] @ text[order[b]]), 3)}
        for a, b in combinations(range(len(order)), 2)
    ]
    return {"classes": [task.class_names[k] for k in order], "pairs": sorted(pairs, key=lambda one: -one["cosine"])}
