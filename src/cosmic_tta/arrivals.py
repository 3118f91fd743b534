"""How images may arrive: the stream, and the kinds of it, each a small function of a seeded draw.

A stream is more than an order: some derive another pack (classes taken out, a second domain), some show images
again, some have steps that no accuracy counts. Labels serve to arrange it and to judge it; no method sees one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from cosmic_tta.domains import move_half
from cosmic_tta.errors import InputError
from cosmic_tta.ops import Array, Bools, Ints, as_float32, softmax, unit
from cosmic_tta.packs import FeaturePack

CHUNKS = 10  # of a Dirichlet stream
STAY = 20  # steps, on average, between changes of the live classes
CONFIDENT = 0.9  # a poisonous image is wrong with more than this
UNKNOWN = -1  # the label of an image whose class is not in the task
BLOCK = 4096  # images that zero-shot looks at together


@dataclass(frozen=True, eq=False)
class Stream:
    """The images of one evaluation in the order of their arrival, and what is known of each step.

    `order` holds places in `pack`, which is derived where the kind asks for it. `labels` are places among the
    classes of that pack's task, UNKNOWN where the class is not among them; they are for the evaluator alone.
    """

    name: str
    seed: int
    pack: FeaturePack
    order: Ints  # [n]
    counted: Bools  # [n] does the step count for accuracy?
    known: Bools  # [n] is its true class one of the task's?
    labels: Ints | None = None  # [n]
    domains: Ints | None = None  # [n] which domain each image is from, where there are several
    note: str = ""  # what a reader of the result must know

    def __len__(self) -> int:
        return len(self.order)

    def cut(self, limit: int | None) -> Stream:
        """Return the first steps of the stream."""
        if limit is None or limit >= len(self):
            return self
        per_step = ("order", "counted", "known", "labels", "domains")
        kept = {name: None if getattr(self, name) is None else getattr(self, name)[:limit] for name in per_step}
        return replace(self, **kept)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Draw:
    """What a kind makes its stream from."""

    name: str
    pack: FeaturePack
    seed: int
    value: float  # of the kind's parameter

    @property
    def labels(self) -> Ints:
        """The labels of the pack's images; kinds that ask for them are refused on packs without."""
        assert self.pack.labels is not None
        return np.asarray(self.pack.labels)

    def stream(self, order: Ints, **more: object) -> Stream:
        """Make the stream of an order; unless told otherwise, all steps count and all classes are known."""
        every = np.ones(len(order), bool)
        known = {"counted": every, "known": every, "pack": self.pack, **more}
        if "labels" not in known and self.pack.labels is not None:
            known["labels"] = self.labels[order]
        return Stream(self.name, self.seed, order=order, **known)  # type: ignore[arg-type]


def given(draw: Draw) -> Stream:
    """Keep the order of the pack."""
    return draw.stream(np.arange(len(draw.pack)))


def shuffle(draw: Draw) -> Stream:
    """Draw a random order, the same on every machine."""
    return draw.stream(np.random.default_rng(draw.seed).permutation(len(draw.pack)))


def class_sequential(draw: Draw) -> Stream:
    """Show one class after the other, classes and images in random order."""
    rng = np.random.default_rng(draw.seed)
    return draw.stream(np.concatenate([_own(draw.labels, k, rng) for k in rng.permutation(np.unique(draw.labels))]))


def dirichlet(draw: Draw) -> Stream:
    """Spread each class unevenly over ten chunks of the stream, by a Dirichlet draw; shuffle within a chunk."""
    rng = np.random.default_rng(draw.seed)
    chunks: list[list[Ints]] = [[] for _ in range(CHUNKS)]
    for k in np.unique(draw.labels):
        images = _own(draw.labels, k, rng)
        chunk = rng.choice(CHUNKS, len(images), p=rng.dirichlet([draw.value] * CHUNKS))
        for place in range(CHUNKS):
            chunks[place].append(images[chunk == place])
    return draw.stream(np.concatenate([rng.permutation(np.concatenate(parts)) for parts in chunks]))


def few_classes(draw: Draw) -> Stream:
    """Keep a few classes live; now and then, and when one has no images left, another takes a live one's place.

    All images come, each once. At most half of the classes are live at a time.
    """
    rng = np.random.default_rng(draw.seed)
    left = {k: _own(draw.labels, k, rng).tolist() for k in rng.permutation(np.unique(draw.labels)).tolist()}
    waiting = list(left)
    live = [waiting.pop() for _ in range(min(int(draw.value), max(1, len(waiting) // 2)))]
    order = []
    while live:
        place = int(rng.integers(len(live)))
        images = left[live[place]]
        order.append(images.pop())
        if images and not (waiting and rng.random() < 1 / STAY):
            continue
        if waiting:
            leaving, live[place] = live[place], waiting.pop(int(rng.integers(len(waiting))))
            waiting += [leaving] if images else []
        else:
            del live[place]
    return draw.stream(np.array(order, np.int64))


def long_tailed(draw: Draw) -> Stream:
    """Give the classes geometric sizes, in random order of rank; then shuffle."""
    rng = np.random.default_rng(draw.seed)
    ranked = rng.permutation(np.unique(draw.labels))
    largest = int(np.bincount(draw.labels).max())
    kept = []
    for rank, k in enumerate(ranked):
        size = round(largest * draw.value ** (rank / max(len(ranked) - 1, 1)))
        kept.append(_own(draw.labels, k, rng)[: max(1, size)])
    return draw.stream(rng.permutation(np.concatenate(kept)))


def dominant(draw: Draw) -> Stream:
    """Make one class half of the stream: all its images, and as many of the others."""
    rng = np.random.default_rng(draw.seed)
    chosen = draw.labels == rng.choice(np.unique(draw.labels))
    own, others = np.flatnonzero(chosen), rng.permutation(np.flatnonzero(~chosen))
    return draw.stream(rng.permutation(np.concatenate([own, others[: len(own)]])))


def mixed(draw: Draw) -> Stream:
    """Mix the images of all domains at random."""
    pack, domains = _domains(draw)
    order = np.random.default_rng(draw.seed).permutation(len(pack))
    return draw.stream(order, pack=pack, domains=domains[order])


def switching(draw: Draw) -> Stream:
    """Show one domain after the other, the images of each in random order."""
    pack, domains = _domains(draw)
    rng = np.random.default_rng(draw.seed)
    order = np.concatenate([_own(domains, domain, rng) for domain in np.unique(domains)])
    return draw.stream(order, pack=pack, domains=domains[order])


def open_set(draw: Draw) -> Stream:
    """Take a share of the classes out of the task; their images stay in the stream as unknowns."""
    present = np.unique(draw.labels)
    if len(present) < 2:
        raise InputError(
            f"the stream {draw.name!r} takes classes out of the task, and all images of pack {draw.pack.name!r} "
            "are of one class."
        )
    rng = np.random.default_rng(draw.seed)
    taken = min(max(1, round(len(draw.pack.class_names) * draw.value / 100)), len(present) - 1)
    out = np.zeros(len(draw.pack.class_names), bool)
    out[rng.choice(present, taken, replace=False)] = True
    place = np.where(out, UNKNOWN, np.cumsum(~out) - 1)  # of each class among those that stay
    order = rng.permutation(len(draw.pack))
    labels = place[draw.labels[order]]
    known = labels != UNKNOWN
    names = tuple(name for name, gone in zip(draw.pack.class_names, out, strict=True) if not gone)
    tower = None if draw.pack.tower is None else draw.pack.tower.with_classes(names)
    pack = replace(draw.pack, class_names=names, text=np.asarray(draw.pack.text)[~out], labels=None, tower=tower)
    note = f"{taken} of {len(out)} classes unknown"
    return draw.stream(order, pack=pack, labels=labels, known=known, counted=known, note=note)


def repeated(draw: Draw) -> Stream:
    """Show each image several times in a row, like a video: from once up to so many times, at random."""
    rng = np.random.default_rng(draw.seed)
    order = rng.permutation(len(draw.pack))
    return draw.stream(np.repeat(order, rng.integers(1, int(draw.value), len(order), endpoint=True)))


def poisoned(draw: Draw) -> Stream:
    """Replace a share of a shuffled stream by images that zero-shot confidently takes for another class.

    They are drawn with repetition if there are too few. If none is wrong with more than 0.9, the most confident of
    the wrong ones serve. Accuracy counts the clean steps alone.
    """
    rng = np.random.default_rng(draw.seed)
    order = rng.permutation(len(draw.pack))
    steps = rng.choice(len(order), round(len(order) * draw.value / 100), replace=False)
    answers, confidence = _zero_shot(draw.pack)
    wrong = np.flatnonzero(answers != draw.labels)
    sure = wrong[confidence[wrong] > CONFIDENT]
    if not len(wrong):
        return draw.stream(order, note="zero-shot is wrong nowhere: nothing to poison with")
    poison = f"{draw.value:g} % of the steps poisoned with"
    note = f"{poison} errors of zero-shot above {CONFIDENT}, {len(sure)} different"
    if not len(sure):
        sure = wrong[np.argsort(-confidence[wrong], kind="stable")][: max(1, len(steps))]
        lowest = confidence[sure].min()
        note = f"{poison} the surest errors of zero-shot, {lowest:.2f} and more, as none is above {CONFIDENT}"
    order[steps] = rng.choice(sure, len(steps), replace=len(sure) < len(steps))
    counted = np.ones(len(order), bool)
    counted[steps] = False
    return draw.stream(order, counted=counted, note=note)


def _own(labels: Ints, k: int, rng: np.random.Generator) -> Ints:
    """Return the images of a class in random order."""
    return rng.permutation(np.flatnonzero(labels == k))


def _domains(draw: Draw) -> tuple[FeaturePack, Ints]:
    """Return the pack with the domain of each image; where it has one domain only, a second is made."""
    if draw.pack.domains is not None:
        return draw.pack, np.asarray(draw.pack.domains)
    return move_half(draw.pack, draw.seed, draw.value)


def _zero_shot(pack: FeaturePack) -> tuple[Ints, Array]:
    """Return zero-shot's answer for each image, and how confident it is."""
    text, scale = unit(as_float32(pack.text)), np.float32(pack.logit_scale)
    answers, confidence = [], []
    for start in range(0, len(pack), BLOCK):
        scores = softmax(scale * (as_float32(pack.clip[start : start + BLOCK, 0]) @ text.T))  # [block, K]
        answers.append(scores.argmax(axis=1))
        confidence.append(scores.max(axis=1))
    return np.concatenate(answers), np.concatenate(confidence)
