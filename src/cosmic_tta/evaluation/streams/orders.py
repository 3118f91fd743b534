"""The kinds of streams, one function each. A function arranges the images of a pack by a seeded generator.

`registry.py` gives them names. Labels serve to arrange a stream and to judge it; a method never sees one.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cosmic_tta.core.arrays import Array, Ints, as_float32, softmax, unit
from cosmic_tta.core.errors import InputError
from cosmic_tta.evaluation.streams.stream import UNKNOWN, EvaluationStream, StreamRequest
from cosmic_tta.features.pack import FeaturePack
from cosmic_tta.features.pack_ops import shift_half

DIRICHLET_CHUNKS = 10
MIN_OCCURRING_CLASSES = 2  # of absent
MEAN_STEPS_PER_SWAP = 20  # of few-classes: steps between changes of the active classes
POISON_CONFIDENCE = 0.9  # zero-shot is wrong with more than this confidence
ZERO_SHOT_BLOCK = 4096  # images that are scored at once


def given(request: StreamRequest) -> EvaluationStream:
    """Keep the order of the pack."""
    return request.stream(np.arange(len(request.pack)))


def shuffle(request: StreamRequest) -> EvaluationStream:
    """Shuffle the images."""
    return request.stream(np.random.default_rng(request.seed).permutation(len(request.pack)))


def class_sequential(request: StreamRequest) -> EvaluationStream:
    """Show one class after the other, classes and images in random order."""
    rng = np.random.default_rng(request.seed)
    classes = rng.permutation(np.unique(request.labels))
    return request.stream(np.concatenate([_shuffled_rows(request.labels, k, rng) for k in classes]))


def dirichlet(request: StreamRequest) -> EvaluationStream:
    """Distribute each class over ten chunks with Dirichlet proportions, and shuffle within each chunk."""
    rng = np.random.default_rng(request.seed)
    chunks: list[list[Ints]] = [[] for _ in range(DIRICHLET_CHUNKS)]
    for k in np.unique(request.labels):
        images = _shuffled_rows(request.labels, k, rng)
        proportions = rng.dirichlet([request.value] * DIRICHLET_CHUNKS)
        chunk_of_image = rng.choice(DIRICHLET_CHUNKS, len(images), p=proportions)
        for index, chunk in enumerate(chunks):
            chunk.append(images[chunk_of_image == index])
    return request.stream(np.concatenate([rng.permutation(np.concatenate(chunk)) for chunk in chunks]))


def few_classes(request: StreamRequest) -> EvaluationStream:
    """Show images of a few active classes at a time, and replace an active class from time to time.

    An active class is also replaced when it has no images left. Every image is shown once. At most half of the
    classes are active.
    """
    rng = np.random.default_rng(request.seed)
    left = {
        k: _shuffled_rows(request.labels, k, rng).tolist() for k in rng.permutation(np.unique(request.labels)).tolist()
    }
    waiting = list(left)
    active = [waiting.pop() for _ in range(min(int(request.value), max(1, len(waiting) // 2)))]
    order = []
    while active:
        slot = int(rng.integers(len(active)))
        images = left[active[slot]]
        order.append(images.pop())
        if images and not (waiting and rng.random() < 1 / MEAN_STEPS_PER_SWAP):
            continue
        if waiting:
            leaving, active[slot] = active[slot], waiting.pop(int(rng.integers(len(waiting))))
            waiting += [leaving] if images else []
        else:
            del active[slot]
    return request.stream(np.array(order, np.int64))


def long_tailed(request: StreamRequest) -> EvaluationStream:
    """Give the classes geometrically falling sizes, ranked at random; then shuffle."""
    rng = np.random.default_rng(request.seed)
    ranked = rng.permutation(np.unique(request.labels))
    largest = int(np.bincount(request.labels).max())
    kept = []
    for rank, k in enumerate(ranked):
        size = round(largest * request.value ** (rank / max(len(ranked) - 1, 1)))
        kept.append(_shuffled_rows(request.labels, k, rng)[: max(1, size)])
    return request.stream(rng.permutation(np.concatenate(kept)))


def dominant(request: StreamRequest) -> EvaluationStream:
    """Make one class half of the stream: all its images, and as many of the others."""
    rng = np.random.default_rng(request.seed)
    chosen = request.labels == rng.choice(np.unique(request.labels))
    own, others = np.flatnonzero(chosen), rng.permutation(np.flatnonzero(~chosen))
    return request.stream(rng.permutation(np.concatenate([own, others[: len(own)]])))


def absent(request: StreamRequest) -> EvaluationStream:
    """Show the images of a share of the classes only, at random. The task keeps every class."""
    rng = np.random.default_rng(request.seed)
    present, classes = np.unique(request.labels), len(request.pack.class_names)
    count = min(max(MIN_OCCURRING_CLASSES, round(classes * request.value / 100)), len(present))
    rows = np.flatnonzero(np.isin(request.labels, rng.choice(present, count, replace=False)))
    return request.stream(rng.permutation(rows), note=f"{count} of {classes} classes occur")


def mixed(request: StreamRequest) -> EvaluationStream:
    """Shuffle the images of all domains together."""
    pack, domains = _domains(request)
    order = np.random.default_rng(request.seed).permutation(len(pack))
    return request.stream(order, pack=pack, domains=domains[order])


def switching(request: StreamRequest) -> EvaluationStream:
    """Show one domain after the other, the images of each in random order."""
    pack, domains = _domains(request)
    rng = np.random.default_rng(request.seed)
    order = np.concatenate([_shuffled_rows(domains, domain, rng) for domain in np.unique(domains)])
    return request.stream(order, pack=pack, domains=domains[order])


def open_set(request: StreamRequest) -> EvaluationStream:
    """Remove a share of the classes from the task. Their images stay in the stream, as unknown ones."""
    pack, present = request.pack, np.unique(request.labels)
    if len(present) < 2:
        raise InputError(
            f"the stream {request.name!r} removes classes from the task, and all images of pack {pack.name!r} "
            "are of one class."
        )
    rng = np.random.default_rng(request.seed)
    count = min(max(1, round(len(pack.class_names) * request.value / 100)), len(present) - 1)
    removed = np.zeros(len(pack.class_names), bool)
    removed[rng.choice(present, count, replace=False)] = True
    new_index = np.where(removed, UNKNOWN, np.cumsum(~removed) - 1)  # [K]
    order = rng.permutation(len(pack))
    labels = new_index[request.labels[order]]
    known = labels != UNKNOWN
    names = tuple(name for name, gone in zip(pack.class_names, removed, strict=True) if not gone)
    tower = None if pack.tower is None else pack.tower.with_classes(names)
    narrowed = replace(pack, class_names=names, text=np.asarray(pack.text)[~removed], labels=None, tower=tower)
    note = f"{count} of {len(removed)} classes unknown"
    return request.stream(order, pack=narrowed, labels=labels, known=known, counted=known, note=note)


def repeated(request: StreamRequest) -> EvaluationStream:
    """Show each image several times in a row, like a video: a random number of times, up to the given one."""
    rng = np.random.default_rng(request.seed)
    order = rng.permutation(len(request.pack))
    return request.stream(np.repeat(order, rng.integers(1, int(request.value), len(order), endpoint=True)))


def poisoned(request: StreamRequest) -> EvaluationStream:
    """Replace a share of a shuffled stream by images that zero-shot classifies wrongly with high confidence.

    They are drawn with repetition if there are too few. If none is wrong with a confidence above 0.9, the most
    confident of the wrong ones are taken. Accuracy counts the other steps only.
    """
    rng = np.random.default_rng(request.seed)
    order = rng.permutation(len(request.pack))
    steps = rng.choice(len(order), round(len(order) * request.value / 100), replace=False)
    answers, confidence = _zero_shot(request.pack)
    wrong = np.flatnonzero(answers != request.labels)
    if not len(wrong):
        return request.stream(order, note="zero-shot is wrong nowhere: nothing to poison with")
    poison = wrong[confidence[wrong] > POISON_CONFIDENCE]
    share = f"{request.value:g} % of the steps poisoned with"
    note = f"{share} errors of zero-shot above {POISON_CONFIDENCE}, {len(poison)} different"
    if not len(poison):
        poison = wrong[np.argsort(-confidence[wrong], kind="stable")][: max(1, len(steps))]
        lowest = confidence[poison].min()
        note = f"{share} the surest errors of zero-shot, {lowest:.2f} and more, as none is above {POISON_CONFIDENCE}"
    order[steps] = rng.choice(poison, len(steps), replace=len(poison) < len(steps))
    counted = np.ones(len(order), bool)
    counted[steps] = False
    return request.stream(order, counted=counted, note=note)


def _shuffled_rows(labels: Ints, label: int, rng: np.random.Generator) -> Ints:
    """Return the rows of one label in random order."""
    return rng.permutation(np.flatnonzero(labels == label))


def _domains(request: StreamRequest) -> tuple[FeaturePack, Ints]:
    """Return the pack with the domain of each image. A pack of one domain gets a second one."""
    if request.pack.domains is not None:
        return request.pack, np.asarray(request.pack.domains)
    return shift_half(request.pack, request.seed, request.value)


def _zero_shot(pack: FeaturePack) -> tuple[Ints, Array]:
    """Return the zero-shot prediction of each image, and its confidence."""
    text, scale = unit(as_float32(pack.text)), np.float32(pack.logit_scale)
    answers, confidence = [], []
    for start in range(0, len(pack), ZERO_SHOT_BLOCK):
        scores = softmax(scale * (as_float32(pack.clip[start : start + ZERO_SHOT_BLOCK, 0]) @ text.T))  # [block, K]
        answers.append(scores.argmax(axis=1))
        confidence.append(scores.max(axis=1))
    return np.concatenate(answers), np.concatenate(confidence)
