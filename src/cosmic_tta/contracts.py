"""Named checks that every method must pass: `check_method(make)` runs them all.

`make` gets a pack and returns the method to try on its stream, so that a few-shot method can take its
support from there. A method that needs a text tower gets a small generated one; `ready` makes any registered method.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from cosmic_tta.core import Method, Prediction, Sample, Support, Task, TextTower
from cosmic_tta.errors import CosmicError, EncoderError, InputError
from cosmic_tta.methods import make_method, split_name
from cosmic_tta.packs import FeaturePack
from cosmic_tta.prompt_learning import INSTALL, Learned
from cosmic_tta.snapshot import load, save
from cosmic_tta.state import state_bytes, state_digest
from cosmic_tta.synthetic import superclass_pack
from cosmic_tta.training import Course, trained

Make = Callable[[FeaturePack], Method[Any]]


class ContractError(CosmicError, AssertionError):
    """A method that does not keep what every method promises."""


def _pack(images: int = 60, **form: int) -> FeaturePack:
    return superclass_pack(seed=7, images=images, dim=24, aux_dim=16, **{"views": 4, **form})


def _samples(pack: FeaturePack, *, aux: bool = True) -> list[Sample]:
    whole = [pack.sample(index) for index in range(len(pack))]
    return whole if aux else [Sample(sample.clip) for sample in whole]


def _task(method: Method[Any], pack: FeaturePack) -> Task:
    return towered(pack).task() if "tower" in method.needs else pack.task()


def towered(pack: FeaturePack) -> FeaturePack:
    """Return the pack with a small text tower of drawn weights; needs torch."""
    return pack.with_tower(_tower(pack.class_names, pack.text.shape[1]))


@lru_cache(maxsize=4)
def _tower(class_names: tuple[str, ...], dim: int) -> TextTower:
    try:
        from cosmic_tta.encoders.generated_tower import generated_tower
    except ImportError as error:
        raise EncoderError(f"a method that learns prompts is checked with torch: {INSTALL}.") from error
    return generated_tower(class_names, dim)


def ready(spec: str, **parameters: Any) -> Make:
    """Return what makes a registered method for a pack: with its support, or a checkpoint that was hardly trained."""
    kind, _ = split_name(spec)

    def make(pack: FeaturePack) -> Method[Any]:
        given = dict(parameters)
        if "support" in kind.needs:
            given.setdefault("support", pack.support())
        if "checkpoint" in kind.needs and "checkpoint" not in given:
            if kind.name not in _TRAINED or _TRAINED[kind.name][0] != _key(pack):
                _TRAINED[kind.name] = _key(pack), _hardly_trained(kind, pack)
            given["checkpoint"] = _TRAINED[kind.name][1]
        return make_method(spec, **given)

    return make


_TRAINED: dict[str, tuple[Any, Learned]] = {}  # the last pack's, since the checks make a method again and again


def _key(pack: FeaturePack) -> Any:
    return pack.class_names, pack.clip.shape, pack.source


def _hardly_trained(kind: type[Method[Any]], pack: FeaturePack) -> Learned:
    pack = towered(pack) if "tower" in kind.needs else pack
    labels, places = np.unique(np.asarray(pack.labels), return_index=True)
    absent = [k for k in range(len(pack.class_names)) if k not in labels]  # a short stream need not have every class
    features = np.concatenate([pack.clip[places, 0], pack.text[absent]])
    support = Support(features, np.concatenate([labels, np.array(absent, np.int64)]), pack.class_names)
    return trained(kind.name, pack.task(), support, Course(epochs=2, batch=8))


def _require(kept: bool, broken: str) -> None:
    if not kept:
        raise ContractError(broken)


def _same(one: Prediction, other: Prediction) -> bool:
    return (
        np.array_equal(one.scores, other.scores)
        and one.parts.keys() == other.parts.keys()
        and all(np.array_equal(one.parts[name], other.parts[name]) for name in one.parts)
    )


def _sound(prediction: Prediction, classes: int) -> None:
    scores = prediction.scores
    _require(scores.shape == (classes,), f"scores have the shape {scores.shape}, expected ({classes},)")
    _require(bool(np.isfinite(scores).all() and (scores >= 0).all()), "scores are not finite and non-negative")
    _require(abs(float(scores.sum()) - 1) < 1e-4, f"scores sum to {float(scores.sum())}, expected 1")
    _require("zero_shot" in prediction.parts, "parts have no 'zero_shot'")
    for name, part in prediction.parts.items():
        _require(part.shape == (classes,), f"part {name!r} has the shape {part.shape}, expected ({classes},)")


def _runs(make: Make, pack: FeaturePack, samples: list[Sample]) -> None:
    method = make(pack)
    state = method.init(_task(method, pack if samples[0].aux is not None else _without_aux(pack)))
    for sample in samples:
        _sound(method.step(state, sample), len(pack.class_names))
    _require(state.seen == len(samples), f"the state counted {state.seen} of {len(samples)} samples")


def _without_aux(pack: FeaturePack) -> FeaturePack:
    return replace(pack, aux=None)


def first_sample(make: Make) -> None:
    """The first sample of a stream is answered, by peek and by step."""
    pack = _pack(images=1)
    method = make(pack)
    state = method.init(_task(method, pack))
    _sound(method.peek(state, pack.sample(0)), len(pack.class_names))
    _sound(method.step(state, pack.sample(0)), len(pack.class_names))


def input_untouched(make: Make) -> None:
    """No step changes the sample that it was given, nor keeps hold of it."""
    pack = _pack()
    method = make(pack)
    state, twin = method.init(_task(method, pack)), method.init(_task(method, pack))
    for sample in _samples(pack):
        mine = Sample(sample.clip, sample.aux)
        arrays = [array for array in (mine.clip, mine.aux) if array is not None]
        before = [array.copy() for array in arrays]
        method.step(state, mine)
        _require(all(map(np.array_equal, arrays, before)), "a step changed its sample")
        for array in arrays:
            array.flags.writeable = True
            array[:] = 0
        method.step(twin, sample)
    _require(state_digest(state) == state_digest(twin), "the state kept hold of the sample's arrays")


def bounded_memory(make: Make) -> None:
    """A stream twice as long takes no more memory."""
    pack = _pack(images=800, views=1)
    method = make(pack)
    if "tower" in method.needs:  # its steps are slow, and its state is small
        pack = _pack(images=100, views=1)
        method = make(pack)
    state = method.init(_task(method, pack))
    sizes = []
    for sample in _samples(pack):
        method.step(state, sample)
        sizes.append(state_bytes(state))
    half = len(sizes) // 2
    most, later = max(sizes[:half]), max(sizes[half:])
    _require(later <= 1.25 * most, f"the state grew from {most} to {later} bytes while the stream doubled")


def snapshot_continues(make: Make) -> None:
    """Saved and loaded at any point, a stream goes on bit by bit as if nothing had been."""
    pack = _pack()
    method = make(pack)
    state = method.init(_task(method, pack))
    samples = _samples(pack)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "state.safetensors"
        for cut in (0, 1, len(samples) // 2):
            while state.seen < cut:
                method.step(state, samples[state.seen])
            save(file, method, state)
            again = load(file, method, _task(method, pack))
            _require(state_digest(again) == state_digest(state), f"the state changed on disk after {cut} samples")
    same = all(_same(method.step(state, sample), method.step(again, sample)) for sample in samples[state.seen :])
    _require(same and state_digest(again) == state_digest(state), "the loaded state went another way")


def peek_changes_nothing(make: Make) -> None:
    """Peek leaves the state bit-equal, from the first sample on, and says the same twice."""
    pack = _pack()
    method = make(pack)
    state = method.init(_task(method, pack))
    for sample in _samples(pack):
        before = state_digest(state)
        looks = method.peek(state, sample), method.peek(state, sample)
        _sound(looks[0], len(pack.class_names))
        _require(_same(*looks), "two peeks at one sample differ")
        _require(state_digest(state) == before, "peek changed the state")
        method.step(state, sample)


def steps_equal_one_by_one(make: Make) -> None:
    """A block of samples gives the answers and the state of one step after the other."""
    pack = _pack()
    method = make(pack)
    block, single = method.init(_task(method, pack)), method.init(_task(method, pack))
    samples = _samples(pack)
    together = [p for start in range(0, 60, 17) for p in method.steps(block, samples[start : start + 17])]
    apart = [method.step(single, sample) for sample in samples]
    _require(all(_same(a, b) for a, b in zip(together, apart, strict=True)), "a block's answers differ")
    _require(state_digest(block) == state_digest(single), "a block's state differs")


def deterministic(make: Make) -> None:
    """The same stream gives the same bits."""
    digests = set()
    for _ in range(2):
        pack = _pack()
        method = make(pack)
        state = method.init(_task(method, pack))
        scores = [prediction.scores.tobytes() for prediction in method.steps(state, _samples(pack))]
        digests.add((state_digest(state), b"".join(scores)))
    _require(len(digests) == 1, "two runs of one stream differ")


def explanation_is_of_its_moment(make: Make) -> None:
    """Asked for at once or long after, an explanation is the same."""
    pack = _pack()
    method = make(pack)
    late, prompt = method.init(_task(method, pack)), method.init(_task(method, pack))
    samples = _samples(pack)
    kept = [method.step(late, sample) for sample in samples]
    told = [method.step(prompt, sample).why for sample in samples]
    _require([prediction.why for prediction in kept] == told, "an explanation changed while the stream went on")


def one_class(make: Make) -> None:
    """A task of one class has one answer."""
    pack = _pack(images=20, superclasses=1, members=1)
    _runs(make, pack, _samples(pack))


def one_view(make: Make) -> None:
    """The plain view alone is enough."""
    pack = _pack(views=1)
    _runs(make, pack, _samples(pack))


def many_views(make: Make) -> None:
    """Sixty-four views are not too many."""
    pack = _pack(images=20, views=64)
    _runs(make, pack, _samples(pack))


def no_aux(make: Make) -> None:
    """Without auxiliary features the method still works."""
    pack = _pack()
    _runs(make, pack, _samples(pack, aux=False))


def aux_told_late(make: Make) -> None:
    """A task that does not tell the auxiliary width behaves as one that does."""
    pack = _pack()
    method = make(pack)
    told, untold = method.init(_task(method, pack)), method.init(_task(method, _without_aux(pack)))
    samples = _samples(pack)
    same = all(_same(method.step(told, sample), method.step(untold, sample)) for sample in samples)
    _require(same and state_digest(told) == state_digest(untold), "the width's first mention changed the stream")


def foreign_state_is_refused(make: Make) -> None:
    """A state that another method made is refused and left as it is."""
    pack = _pack(images=1)
    method = make(pack)
    state = method.init(_task(method, pack))
    state.made_by = "another method"
    before = state_digest(state)
    for attempt in (method.step, method.peek, lambda s, x: method.steps(s, [x])):
        try:
            attempt(state, pack.sample(0))
        except InputError:
            _require(state_digest(state) == before, "a refused state was changed")
        else:
            raise ContractError("a state of another method was taken")


def bad_sample_changes_nothing(make: Make) -> None:
    """A sample of another form is refused and leaves the state bit-equal."""
    pack = _pack()
    method = make(pack)
    state = method.init(_task(method, pack))
    good, *rest = _samples(pack)
    method.steps(state, rest)
    before = state_digest(state)
    narrow = np.eye(1, pack.clip.shape[2] - 1, dtype=np.float32)
    bad = (Sample(narrow, good.aux), Sample(good.clip), Sample(good.clip, narrow[0]))
    for sample in bad:
        for attempt in (method.step, method.peek, lambda s, x: method.steps(s, [good, x])):
            try:
                attempt(state, sample)
            except InputError:
                _require(state_digest(state) == before, "a refused sample changed the state")
            else:
                raise ContractError("a sample of the wrong form was taken")


CHECKS: Mapping[str, Callable[[Make], None]] = {
    check.__name__: check
    for check in (
        first_sample,
        input_untouched,
        bounded_memory,
        snapshot_continues,
        peek_changes_nothing,
        steps_equal_one_by_one,
        deterministic,
        explanation_is_of_its_moment,
        one_class,
        one_view,
        many_views,
        no_aux,
        aux_told_late,
        foreign_state_is_refused,
        bad_sample_changes_nothing,
    )
}


def check_method(make: Make) -> None:
    """Run every check on a method of yours; the first broken promise raises a ContractError."""
    for check in CHECKS.values():
        check(make)
