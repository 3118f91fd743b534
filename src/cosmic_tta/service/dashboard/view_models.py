"""JSON for the dashboard. Its size is bounded, whatever the number of classes and predictions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosmic_tta.core.arrays import dots
from cosmic_tta.core.explanation import Explanation
from cosmic_tta.core.memory import FeatureMemory
from cosmic_tta.core.types import Task
from cosmic_tta.service.dashboard.events import LastPrediction
from cosmic_tta.service.dashboard.thumbnails import Thumbnails
from cosmic_tta.service.errors import without_paths
from cosmic_tta.service.stream_queue import StreamQueue
from cosmic_tta.service.stream_status import alarm_status
from cosmic_tta.sessions.backend import SessionBackend
from cosmic_tta.sessions.monitor import AnswerRecord, Monitor

MAX_POINTS = 240  # per curve
SMOOTHING_WINDOW = 20  # predictions per mean
MAX_UNCERTAIN, RECENT = 12, 400  # predictions to label, among the most recent ones
MAX_ROWS = 12  # per list
MAX_SOURCES = 48
MAX_IMAGES = 24  # per class
MAX_INLIERS = 24
MAX_SCORES = 8  # classes per prediction
MAX_MEMBERS = 10  # classes per hyper-class
MAX_SIMILAR = 7
Json = dict[str, Any]


def stream_summary(queue: StreamQueue, encoder_problem: str) -> Json:
    """Return one row of the list of streams."""
    session = queue.session
    return {
        "name": session.name,
        "id": queue.id,
        "method": session.method.name,
        "encoder": session.metadata.get("encoder"),
        "classes": session.task.classes,
        "paused": session.paused,
        "number": session.number,
        "seen": session.seen,
        "waiting": queue.pending,
        "problem": encoder_problem,
        "warnings": len(session.warnings),
        **session.health._asdict(),
    }


def overview(session: SessionBackend, thumbnails: Thumbnails) -> Json:
    """Return the progress, accuracies, alarms, sources and snapshots of a stream."""
    monitor, with_image = session.monitor, thumbnails.steps()
    sources = sorted(session.sources.items(), key=lambda source: -source[1][1])
    return {
        "number": session.number,
        "seen": session.seen,
        "paused": session.paused,
        "warnings": [without_paths(warning) for warning in session.warnings],
        "counts": dict(monitor.counts),
        "accuracy": monitor.accuracy,
        "zero_shot_accuracy": monitor.zero_shot_accuracy,
        "curves": curves(monitor),
        "confusions": confusions(monitor),
        "unsure": [_uncertain_prediction(record, with_image) for record in uncertain_predictions(monitor)],
        "sources": [{"name": name, "first": first, "steps": steps} for name, (first, steps) in sources[:MAX_SOURCES]],
        "snapshots": [{"id": one.id, "number": one.number, "note": one.note} for one in session.snapshots()],
        **alarm_status(session),
    }


def curves(monitor: Monitor) -> Json:
    """Return confidence and entropy of recent predictions, and running accuracies of the labelled ones."""
    window = monitor.window()
    numbers, label = window["number"], window["label"]
    labelled = np.flatnonzero(label >= 0)
    accuracy = {}
    for name, column, count in (("accuracy", "answer", "right"), ("zero_shot", "zero_shot", "zero_shot_right")):
        correct = np.cumsum(window[column][labelled] == label[labelled])
        # Predictions that have left the window still count.
        earlier = monitor.counts["labelled"] - len(labelled)
        earlier_correct = monitor.counts[count] - (int(correct[-1]) if len(labelled) else 0)
        accuracy[name] = (earlier_correct + correct) / (earlier + np.arange(1, len(labelled) + 1))
    points, labelled_points = _point_indices(len(numbers)), _point_indices(len(labelled))
    return {
        "step": numbers[points].tolist(),
        **{name: _rounded(_moving_mean(window[name])[points]) for name in ("confidence", "entropy")},
        "labelled": numbers[labelled][labelled_points].tolist(),
        **{name: _rounded(values[labelled_points]) for name, values in accuracy.items()},
    }


def _point_indices(count: int) -> NDArray[np.int64]:
    """Return at most MAX_POINTS evenly spaced indices, including the last one."""
    if not count:
        return np.zeros(0, np.int64)
    return np.unique(np.linspace(0, count - 1, min(count, MAX_POINTS)).round().astype(np.int64))


def _moving_mean(values: NDArray[Any]) -> NDArray[np.float64]:
    """Return the mean of each value and the ones right before it."""
    sums = np.concatenate([[0.0], np.cumsum(values, dtype=np.float64)])
    end = np.arange(1, len(values) + 1)
    start = np.maximum(0, end - SMOOTHING_WINDOW)
    means: NDArray[np.float64] = (sums[end] - sums[start]) / (end - start)
    return means


def _rounded(values: NDArray[Any]) -> list[float]:
    return [round(float(value), 4) for value in values]


def confusions(monitor: Monitor) -> list[Json]:
    """Return the most frequent pairs of label and wrong prediction."""
    wrong = sorted(((count, pair) for pair, count in monitor.confusions.items() if pair[0] != pair[1]), reverse=True)
    names = monitor.names
    return [{"label": names[a], "answer": names[b], "count": count} for count, (a, b) in wrong[:MAX_ROWS]]


def uncertain_predictions(monitor: Monitor) -> list[AnswerRecord]:
    """Return recent predictions without a label, by ascending margin."""
    unlabelled = [record for record in monitor.recent(RECENT) if record.label is None]
    return sorted(unlabelled, key=lambda record: record.margin)[:MAX_UNCERTAIN]


def _uncertain_prediction(record: AnswerRecord, with_image: frozenset[int]) -> Json:
    plain = {name: getattr(record, name) for name in ("number", "answer", "zero_shot", "learned", "source")}
    rounded = {name: round(getattr(record, name), 4) for name in ("confidence", "margin", "entropy")}
    return plain | rounded | {"image": record.number in with_image}


def memory(session: SessionBackend, thumbnails: Thumbnails, offset: int, count: int, find: str) -> Json:
    """Return what the method's memories hold of each class, for one page of classes.

    Args:
        session: the session.
        thumbnails: the stream's thumbnails.
        offset: first class of the page.
        count: classes per page.
        find: only classes whose name contains this text.
    """
    names, monitor = session.task.class_names, session.monitor
    predicted = {monitor.names[index]: times for index, times in monitor.answers.items()}
    memories = session.method.memories(session.state)
    fills = [np.bincount(one.classes, minlength=len(names)) for one in memories]
    query = find.casefold()
    order = [k for k, name in enumerate(names) if query in name.casefold()]
    order.sort(key=lambda k: (-predicted.get(names[k], 0), -int(fills[0][k]) if fills else 0, k))
    classes = []
    for k in order[offset : offset + count]:
        images: dict[int, None] = {}
        for one in memories:
            images |= dict.fromkeys(step for step in thumbnails.find_steps(one.of_class(k)) if step is not None)
        classes.append(
            {
                "name": names[k],
                "answered": predicted.get(names[k], 0),
                "held": [int(fill[k]) for fill in fills],
                "images": list(images)[:MAX_IMAGES],
            }
        )
    return {
        "classes": classes,
        "found": len(order),
        "total": len(names),
        "filled": [int((fill > 0).sum()) for fill in fills],
        "memories": [{"name": one.name, "room": one.capacity} for one in memories],
    }


def explained_prediction(last: LastPrediction, session: SessionBackend, thumbnails: Thumbnails) -> Json:
    """Return a prediction and its explanation."""
    result, names = last
    prediction, why = result.prediction, result.prediction.why
    order = np.argsort(-prediction.scores, kind="stable")[:MAX_SCORES]
    memories = session.method.memories(session.state) if session.task.class_names == names else ()
    return {
        "step": result.number,
        "learned": result.learned,
        "reason": result.reason,
        "answers": [{"label": names[k], "score": round(float(prediction.scores[k]), 4)} for k in order],
        "zero_shot": names[int(prediction.parts["zero_shot"].argmax())],
        "parts": {name: names[int(scores.argmax())] for name, scores in prediction.parts.items()},
        "hyper_classes": {space: _hyper_classes(chosen) for space, chosen in why.hyper_classes.items()},
        "inliers": {space: [len(inliers), list(inliers[:MAX_INLIERS])] for space, inliers in why.inliers.items()},
        "reliability": {space: round(share, 3) for space, share in why.reliability.items()},
        "votes": _votes(why, names[order[0]], names, memories, thumbnails),
    }


def _hyper_classes(chosen: Sequence[Any]) -> list[Json]:
    return [
        {"members": list(one.members[:MAX_MEMBERS]), "size": len(one.members), "affinity": round(one.affinity, 3)}
        for one in chosen[:MAX_ROWS]
    ]


def _votes(
    why: Explanation, answer: str, names: Sequence[str], memories: Sequence[FeatureMemory], thumbnails: Thumbnails
) -> dict[str, list[Json]]:
    """Return the samples that voted, with the steps of their thumbnails."""
    by_name = {memory.name: memory for memory in memories}
    votes: dict[str, list[Json]] = {}
    for space, cast in why.votes.items():
        steps: Mapping[int, int | None] = {}
        memory = by_name.get(space)
        if memory is not None and memory.samples is not None:
            of_answer = memory.classes == names.index(answer)
            found = thumbnails.find_steps(memory.features[of_answer])
            steps = dict(zip(memory.samples[of_answer].tolist(), found, strict=True))
        votes[space] = [
            {"label": vote.label, "weight": round(vote.weight, 3), "image": steps.get(vote.sample)}
            for vote in cast[:MAX_ROWS]
        ]
    return votes


def similar_classes(task: Task, name: str) -> Json:
    """Return the classes whose text features are most similar to a class's, and their cosines to each other."""
    centre = task.class_names.index(name)
    text = task.unit_text
    cosines = dots(text, text[centre][None])[0]
    neighbours = [int(k) for k in np.argsort(-cosines, kind="stable") if k != centre][:MAX_SIMILAR]
    order = [centre, *neighbours]
    pairs = [
        {"between": [a, b], "cosine": round(float(text[order[a]] @ text[order[b]]), 3)}
        for a, b in combinations(range(len(order)), 2)
    ]
    return {"classes": [task.class_names[k] for k in order], "pairs": sorted(pairs, key=lambda one: -one["cosine"])}
