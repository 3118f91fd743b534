"""Named checks that every method must pass. `check_method(make)` and `cosmic check-method NAME` run them all.

A check takes a function `make` that returns the method for a pack, so that a few-shot method can take its support
from there. `method_factory.factory_of` returns it for a registered method.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from cosmic_tta.core.errors import CosmicError, InputError
from cosmic_tta.core.method import Method
from cosmic_tta.core.state_tree import state_bytes, state_digest
from cosmic_tta.core.types import Prediction, Sample, Task
from cosmic_tta.evaluation.method_factory import MethodFactory, with_random_tower
from cosmic_tta.features.pack import FeaturePack
from cosmic_tta.features.synthetic import superclass_pack
from cosmic_tta.sessions.state_file import load, save


class ContractError(CosmicError, AssertionError):
    """A method breaks a rule that every method must keep."""


def _pack(images: int = 60, **sizes: int) -> FeaturePack:
    return superclass_pack(seed=7, images=images, dim=24, aux_dim=16, **{"views": 4, **sizes})


def _samples(pack: FeaturePack, *, aux: bool = True) -> list[Sample]:
    samples = [pack.sample(index) for index in range(len(pack))]
    return samples if aux else [Sample(sample.clip) for sample in samples]


def _task(method: Method[Any], pack: FeaturePack) -> Task:
    return with_random_tower(pack).task() if "tower" in method.needs else pack.task()


def _require(kept: bool, problem: str) -> None:
    if not kept:
        raise ContractError(problem)


def _same(one: Prediction, other: Prediction) -> bool:
    return (
        np.array_equal(one.scores, other.scores)
        and one.parts.keys() == other.parts.keys()
        and all(np.array_equal(one.parts[name], other.parts[name]) for name in one.parts)
    )


def _check_prediction(prediction: Prediction, classes: int) -> None:
    scores = prediction.scores
    _require(scores.shape == (classes,), f"scores have the shape {scores.shape}, expected ({classes},)")
    _require(bool(np.isfinite(scores).all() and (scores >= 0).all()), "scores are not finite and non-negative")
    _require(abs(float(scores.sum()) - 1) < 1e-4, f"scores sum to {float(scores.sum())}, expected 1")
    _require("zero_shot" in prediction.parts, "parts have no 'zero_shot'")
    for name, part in prediction.parts.items():
        _require(part.shape == (classes,), f"part {name!r} has the shape {part.shape}, expected ({classes},)")


def _runs(make: MethodFactory, pack: FeaturePack, samples: list[Sample]) -> None:
    method = make(pack)
    state = method.init(_task(method, pack if samples[0].aux is not None else _without_aux(pack)))
    for sample in samples:
        _check_prediction(method.step(state, sample), len(pack.class_names))
    _require(state.seen == len(samples), f"the state counted {state.seen} of {len(samples)} samples")


def _without_aux(pack: FeaturePack) -> FeaturePack:
    return replace(pack, aux=None)


def first_sample(make: MethodFactory) -> None:
    """`peek` and `step` answer the first sample of a stream."""
    pack = _pack(images=1)
    method = make(pack)
    state = method.init(_task(method, pack))
    _check_prediction(method.peek(state, pack.sample(0)), len(pack.class_names))
    _check_prediction(method.step(state, pack.sample(0)), len(pack.class_names))


def input_untouched(make: MethodFactory) -> None:
    """A step neither changes its sample nor keeps a reference to its arrays."""
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
    _require(state_digest(state) == state_digest(twin), "the state keeps a reference to the sample's arrays")


def bounded_memory(make: MethodFactory) -> None:
    """The state does not grow while the stream doubles its length."""
    pack = _pack(images=800, views=1)
    method = make(pack)
    if "tower" in method.needs:  # its steps are slow
        pack = _pack(images=100, views=1)
        method = make(pack)
    state = method.init(_task(method, pack))
    sizes = []
    for sample in _samples(pack):
        method.step(state, sample)
        sizes.append(state_bytes(state))
    half = len(sizes) // 2
    before, after = max(sizes[:half]), max(sizes[half:])
    _require(after <= 1.25 * before, f"the state grew from {before} to {after} bytes while the stream doubled")


def snapshot_continues(make: MethodFactory) -> None:
    """A state that is saved and loaded continues with the same bits."""
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
    _require(same and state_digest(again) == state_digest(state), "the loaded state continued differently")


def peek_changes_nothing(make: MethodFactory) -> None:
    """`peek` leaves every bit of the state as it was, and gives the same result twice."""
    pack = _pack()
    method = make(pack)
    state = method.init(_task(method, pack))
    for sample in _samples(pack):
        before = state_digest(state)
        first, second = method.peek(state, sample), method.peek(state, sample)
        _check_prediction(first, len(pack.class_names))
        _require(_same(first, second), "two peeks at one sample differ")
        _require(state_digest(state) == before, "peek changed the state")
        method.step(state, sample)


def steps_equal_one_by_one(make: MethodFactory) -> None:
    """`steps` gives the predictions and the state of one `step` after the other."""
    pack = _pack()
    method = make(pack)
    block, single = method.init(_task(method, pack)), method.init(_task(method, pack))
    samples = _samples(pack)
    block_predictions = [p for start in range(0, 60, 17) for p in method.steps(block, samples[start : start + 17])]
    single_predictions = [method.step(single, sample) for sample in samples]
    _require(all(_same(a, b) for a, b in zip(block_predictions, single_predictions, strict=True)), "predictions differ")
    _require(state_digest(block) == state_digest(single), "states differ")


def deterministic(make: MethodFactory) -> None:
    """Two runs of one stream give the same bits."""
    digests = set()
    for _ in range(2):
        pack = _pack()
        method = make(pack)
        state = method.init(_task(method, pack))
        scores = [prediction.scores.tobytes() for prediction in method.steps(state, _samples(pack))]
        digests.add((state_digest(state), b"".join(scores)))
    _require(len(digests) == 1, "two runs of one stream differ")


def explanation_does_not_change(make: MethodFactory) -> None:
    """An explanation is the same at once and after later steps."""
    pack = _pack()
    method = make(pack)
    state, twin = method.init(_task(method, pack)), method.init(_task(method, pack))
    samples = _samples(pack)
    predictions = [method.step(state, sample) for sample in samples]
    at_once = [method.step(twin, sample).why for sample in samples]
    _require([prediction.why for prediction in predictions] == at_once, "later steps changed an explanation")


def one_class(make: MethodFactory) -> None:
    """A task may have one class."""
    pack = _pack(images=20, superclasses=1, members=1)
    _runs(make, pack, _samples(pack))


def one_view(make: MethodFactory) -> None:
    """A sample may have one view."""
    pack = _pack(views=1)
    _runs(make, pack, _samples(pack))


def many_views(make: MethodFactory) -> None:
    """A sample may have 64 views."""
    pack = _pack(images=20, views=64)
    _runs(make, pack, _samples(pack))


def no_aux(make: MethodFactory) -> None:
    """Samples may have no auxiliary feature."""
    pack = _pack()
    _runs(make, pack, _samples(pack, aux=False))


def aux_width_from_first_sample(make: MethodFactory) -> None:
    """A task without an auxiliary width adopts that of the first sample."""
    pack = _pack()
    method = make(pack)
    given, adopted = method.init(_task(method, pack)), method.init(_task(method, _without_aux(pack)))
    samples = _samples(pack)
    same = all(_same(method.step(given, sample), method.step(adopted, sample)) for sample in samples)
    _require(same and state_digest(given) == state_digest(adopted), "the result depends on who gives the width")


def foreign_state_is_refused(make: MethodFactory) -> None:
    """A state of another method raises an InputError and is unchanged."""
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
            raise ContractError("a state of another method was accepted")


def bad_sample_changes_nothing(make: MethodFactory) -> None:
    """A sample of other widths raises an InputError and leaves every bit of the state as it was."""
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
                raise ContractError("a sample of other widths was accepted")


CHECKS: Mapping[str, Callable[[MethodFactory], None]] = {
    check.__name__: check
    for check in (
        first_sample,
        input_untouched,
        bounded_memory,
        snapshot_continues,
        peek_changes_nothing,
        steps_equal_one_by_one,
        deterministic,
        explanation_does_not_change,
        one_class,
        one_view,
        many_views,
        no_aux,
        aux_width_from_first_sample,
        foreign_state_is_refused,
        bad_sample_changes_nothing,
    )
}


def check_method(make: MethodFactory) -> None:
    """Run every check on a method.

    Args:
        make: Function from a pack to the method.

    Raises:
        ContractError: The first rule that the method breaks.

    Examples:
        >>> from cosmic_tta import ZeroShot
        >>> check_method(lambda pack: ZeroShot())
    """
    for check in CHECKS.values():
        check(make)
