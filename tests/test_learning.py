"""Losses, ways down them, trainings and checkpoints; and the methods that are made of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cosmic_tta import Sample, Support, Task, checkpoints, make_method
from cosmic_tta.contracts import towered
from cosmic_tta.descent import AdamW, Sgd, cross_entropy, mean_entropy
from cosmic_tta.domains import part
from cosmic_tta.errors import InputError, ParameterError, SnapshotError, UnknownNameError
from cosmic_tta.evaluate import score
from cosmic_tta.methods.tpt import Tpt
from cosmic_tta.ops import Array, logits_entropy, softmax, unit
from cosmic_tta.packs import FeaturePack
from cosmic_tta.prompt_learning import Learned
from cosmic_tta.synthetic import superclass_pack
from cosmic_tta.training import Course, Epoch, drawn, lesson_for, train, trained

TOWERED = [pytest.param("coop", marks=pytest.mark.torch), pytest.param("cocoop", marks=pytest.mark.torch)]
TRAINED = [*TOWERED, "tip_adapter_f"]


class Line:
    """A tower of one linear map, with its gradient by hand: no torch is needed to try the methods."""

    width, dim, fingerprint = 6, 5, "line"

    def __init__(self, classes: int = 3, limit: int = 8) -> None:
        self.class_names, self.limit, self.calls = tuple(f"class {k}" for k in range(classes)), limit, 0
        random = np.random.default_rng(0)
        self.maps = random.standard_normal((classes, self.width, self.dim)).astype(np.float32)
        self.shift = random.standard_normal((classes, self.dim)).astype(np.float32)

    def opening(self, words: str) -> Array:
        return np.stack([np.full(self.width, len(word) / 10, np.float32) for word in words.split()])

    def with_classes(self, class_names: tuple[str, ...]) -> Line:
        other = Line(len(class_names))
        other.class_names = class_names
        return other

    def require(self, tokens: int) -> None:
        if tokens > self.limit:
            raise InputError("too long")

    def texts(self, context: Array) -> Array:
        rows = np.einsum("...w,kwd->...kd", context.mean(axis=-2), self.maps) + self.shift
        return unit(rows.astype(np.float32))

    def differentiate(self, context: Array) -> tuple[Array, Callable[[Array], Array]]:
        self.calls += 1
        texts, tokens = self.texts(context), context.shape[-2]
        rows = np.einsum("...w,kwd->...kd", context.mean(axis=-2), self.maps) + self.shift
        length = np.linalg.norm(rows, axis=-1, keepdims=True)

        def pull(gradient: Array) -> Array:
            by_rows = (gradient - texts * (texts * gradient).sum(axis=-1, keepdims=True)) / length
            by_mean = np.einsum("...kd,kwd->...w", by_rows, self.maps) / tokens
            return np.repeat(by_mean[..., None, :], tokens, axis=-2).astype(np.float32)

        return texts, pull


def line_task(tower: Line) -> Task:
    return Task(tower.class_names, tower.texts(tower.opening("a photo of a")), 10.0, tower=tower)


def shots(task: Task, each: int = 4, noise: float = 0.4) -> Support:
    random = np.random.default_rng(1)
    labels = np.repeat(np.arange(task.classes), each)
    moved = task.text + 0.6 * random.standard_normal((task.classes, task.dim))
    features = moved[labels] + noise * random.standard_normal((len(labels), task.dim))
    return Support(unit(features.astype(np.float32)), labels, task.class_names)


@pytest.fixture(scope="module")
def small() -> FeaturePack:
    return superclass_pack(5, images=80, dim=24, aux_dim=8, views=10, superclasses=3, members=2, noise=1.0)


def towered_if_needed(method: str, pack: FeaturePack) -> FeaturePack:
    if method == "tip_adapter_f":
        return pack
    pytest.importorskip("torch")
    return towered(pack)


@pytest.mark.parametrize("loss", [mean_entropy, lambda logits: cross_entropy(logits, np.array([0, 2, 1]))])
def test_a_gradient_by_hand_is_the_slope_of_its_loss(loss: Callable[[Array], tuple[float, Array]]) -> None:
    random = np.random.default_rng(0)
    logits, step = random.standard_normal((2, 3, 4)).astype(np.float32)
    _, gradient = loss(logits)
    step *= np.float32(1e-2)
    rise = (loss(logits + step)[0] - loss(logits - step)[0]) / 2
    assert rise == pytest.approx(float((gradient * step).sum()), rel=0.02)


@pytest.mark.torch
@pytest.mark.parametrize("kind", ["Sgd", "AdamW"])
def test_the_ways_down_are_torchs(kind: str) -> None:
    torch = pytest.importorskip("torch")
    ours: Any = Sgd() if kind == "Sgd" else AdamW()
    start = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
    weights, parameter = {"w": start}, torch.nn.Parameter(torch.from_numpy(start.copy()))
    theirs = (
        torch.optim.SGD([parameter], 0.1, momentum=0.9, weight_decay=5e-4)
        if kind == "Sgd"
        else torch.optim.AdamW([parameter], 0.1)
    )
    for step in range(5):
        gradient = np.random.default_rng(step).standard_normal((3, 4)).astype(np.float32)
        weights = ours.step(weights, {"w": gradient}, 0.1)
        parameter.grad = torch.from_numpy(gradient)
        theirs.step()
    np.testing.assert_allclose(weights["w"], parameter.detach().numpy(), atol=1e-5)


@pytest.mark.parametrize("method", ["coop", "cocoop", "tip_adapter_f"])
def test_a_lessons_gradients_are_the_slopes_of_its_loss(method: str) -> None:
    task = line_task(Line())
    support = shots(task)
    lesson = lesson_for(method, task, support, Course())
    random = np.random.default_rng(2)
    weights = {
        name: value + 0.1 * random.standard_normal(value.shape).astype(np.float32)
        for name, value in lesson.begin(0).items()
    }
    _, gradients, _ = lesson.loss(weights, support.features, support.labels)
    for name, gradient in gradients.items():
        step = 1e-2 * random.standard_normal(gradient.shape).astype(np.float32)
        ahead = lesson.loss(weights | {name: weights[name] + step}, support.features, support.labels)[0]
        behind = lesson.loss(weights | {name: weights[name] - step}, support.features, support.labels)[0]
        assert (ahead - behind) / 2 == pytest.approx(float((gradient * step).sum()), rel=0.05, abs=2e-5), name


@pytest.mark.parametrize("method", TRAINED)
def test_the_loss_falls_and_the_same_seed_gives_the_same_bits(method: str, small: FeaturePack) -> None:
    pack = towered_if_needed(method, small)
    course = Course(shots=3, epochs=6, rate=0.02, batch=6, seed=3)
    epochs: list[Epoch] = list(train(method, pack.task(), pack.support(), course))
    assert [epoch.done for epoch in epochs] == list(range(7))
    assert epochs[-1].loss < epochs[1].loss
    again = trained(method, pack.task(), pack.support(), course)
    assert again.digest == epochs[-1].learned.digest
    assert trained(method, pack.task(), pack.support(), replace(course, seed=4)).digest != again.digest
    assert again.told["figures"] == {"loss": epochs[-1].loss, "accuracy": epochs[-1].accuracy}


@pytest.mark.parametrize("method", TRAINED)
def test_a_training_that_was_stopped_goes_on_bit_by_bit(method: str, small: FeaturePack, tmp_path: Path) -> None:
    pack = towered_if_needed(method, small)
    course, file = Course(epochs=4, batch=20, rate=0.02), tmp_path / "partial.safetensors"
    for epoch in train(method, pack.task(), pack.support(), course, partial=file):
        if epoch.done == 2:
            break
    with pytest.raises(SnapshotError, match="another training"):
        next(train(method, pack.task(), pack.support(), replace(course, epochs=5), partial=file))
    rest = list(train(method, pack.task(), pack.support(), course, partial=file))
    assert [epoch.done for epoch in rest] == [2, 3, 4]
    assert not file.exists()
    assert rest[-1].learned.digest == trained(method, pack.task(), pack.support(), course).digest


def test_coop_learns_what_the_shots_show() -> None:
    task = line_task(Line())
    support = shots(task, each=16)
    learned = trained("coop", task, support, Course(epochs=60, rate=0.2))
    method = make_method("coop", checkpoint=learned)
    state = method.init(task)
    named = np.array([method.step(state, Sample(row[None])).label for row in support.features])
    zero_shot = (support.features @ task.text.T).argmax(axis=1) == support.labels
    assert (named == support.labels).mean() > zero_shot.mean()


def test_a_context_for_each_class_learns_more_and_serves_no_other() -> None:
    pytest.importorskip("torch")
    pack = towered(superclass_pack(5, images=60, dim=24, superclasses=3, members=2, noise=1.0, views=1))
    course = Course(epochs=8, rate=0.05, class_specific=True)
    learned = trained("coop", pack.task(), pack.support(), course)
    assert learned.arrays["context"].shape[:2] == (6, 4)
    method = make_method("coop", checkpoint=learned)
    method.init(pack.task())
    other = towered(replace(pack, class_names=tuple("uvwxyz"), tower=None))
    with pytest.raises(InputError, match="without --class-specific"):
        method.init(other.task())
    with pytest.raises(ParameterError, match="CoOp's"):
        trained("cocoop", pack.task(), pack.support(), course)


@pytest.mark.torch
@pytest.mark.parametrize("method", ["coop", "cocoop"])
def test_what_was_learned_moves_to_other_classes(method: str, small: FeaturePack) -> None:
    pytest.importorskip("torch")
    pack = towered(small)
    learned = trained(method, pack.task(), pack.support(), Course(epochs=1))
    other = towered(superclass_pack(6, images=10, dim=24, aux_dim=8, views=1, superclasses=2, members=2))
    assert score(make_method(method, checkpoint=learned), other).report.n == 10


def test_tpt_makes_confident_views_agree() -> None:
    tower = Line()
    task = line_task(tower)
    random = np.random.default_rng(3)
    views = unit((task.text[1] + 0.8 * random.standard_normal((64, task.dim))).astype(np.float32))
    method = Tpt(rate=0.05)
    state = method.init(task)

    def entropy_of(texts: Array) -> float:
        logits = np.float32(task.logit_scale) * (views @ state.texts.T)
        kept = np.argsort(logits_entropy(logits), kind="stable")[:6]
        mean = softmax(np.float32(task.logit_scale) * (views[kept] @ texts.T)).mean(axis=0)
        return float(-(mean * np.log(mean)).sum())

    from cosmic_tta.prompt_learning import tuned

    kept = np.argsort(logits_entropy(np.float32(task.logit_scale) * (views @ state.texts.T)), kind="stable")[:6]
    falls = [entropy_of(tuned(tower, state.context, views[kept], task.logit_scale, 0.02, n)[1]) for n in range(4)]
    assert falls == sorted(falls, reverse=True)
    assert falls[-1] < falls[0]


def test_tpt_passes_the_tower_once_a_step_and_begins_each_image_anew() -> None:
    tower = Line()
    task = line_task(tower)
    views = unit(np.random.default_rng(4).standard_normal((3, 64, task.dim)).astype(np.float32))
    method = Tpt(rate=0.1)
    state = method.init(task)
    tower.calls = 0
    first, _, again = (method.step(state, Sample(views[place])) for place in (0, 1, 0))
    assert tower.calls == 3  # whatever the number of views
    np.testing.assert_array_equal(first.scores, again.scores)  # the reset is exact
    np.testing.assert_array_equal(state.context, method.init(task).context)
    carried = Tpt(rate=0.1, carry_over=True)
    moving = carried.init(task)
    first, _, again = (carried.step(moving, Sample(views[place])) for place in (0, 1, 0))
    assert not np.array_equal(first.scores, again.scores)
    assert not np.array_equal(moving.context, state.context)


def test_more_context_vectors_are_drawn_before_the_words() -> None:
    tower = Line()
    state = Tpt(tokens=6).init(line_task(tower))
    assert state.context.shape == (6, tower.width)
    np.testing.assert_array_equal(state.context[2:], tower.opening("a photo of a"))
    np.testing.assert_array_equal(Tpt(tokens=2).init(line_task(tower)).context, tower.opening("of a"))


def test_a_checkpoint_comes_back_as_it_was(tmp_path: Path) -> None:
    task = line_task(Line())
    learned = trained("coop", task, shots(task), Course(epochs=2))
    file = tmp_path / "coop.safetensors"
    checkpoints.write(file, learned)
    again = checkpoints.read(file)
    assert (again.method, again.told, again.digest) == (learned.method, learned.told, learned.digest)
    assert {"tower", "tokens", "template", "seed", "figures", "shots"} <= set(again.told)
    content = bytearray(file.read_bytes())
    content[-3] ^= 1
    file.write_bytes(content)
    with pytest.raises(SnapshotError, match="checksum"):
        checkpoints.read(file)
    file.write_bytes(b"nothing")
    with pytest.raises(SnapshotError, match="no checkpoint of cosmic train"):
        checkpoints.read(file)
    with pytest.raises(SnapshotError, match="make one: cosmic train"):
        checkpoints.read(tmp_path / "absent.safetensors")


@pytest.mark.parametrize("method", ["coop", "cocoop"])
def test_a_checkpoint_of_another_tower_is_refused(method: str) -> None:
    tower, other = Line(), Line()
    learned = trained(method, line_task(tower), shots(line_task(tower)), Course(epochs=1))
    other.fingerprint = "another"
    with pytest.raises(InputError, match="another text tower"):
        make_method(method, checkpoint=learned).init(line_task(other))


def test_tip_adapter_f_serves_its_own_classes_and_features() -> None:
    task = line_task(Line())
    learned = trained("tip_adapter_f", replace(task, encoder="one"), shots(task))
    method = make_method("tip_adapter_f", checkpoint=learned)
    method.init(task)
    with pytest.raises(InputError, match="features of 'one'"):
        method.init(replace(task, encoder="two"))
    with pytest.raises(InputError, match="its own classes"):
        method.init(Task(("a", "b", "c"), task.text))
    narrow = task.text[:, :4] / np.linalg.norm(task.text[:, :4], axis=1, keepdims=True)
    with pytest.raises(InputError, match="5 wide, the class texts 4 wide"):
        method.init(Task(task.class_names, narrow))


def test_what_cannot_be_taught_is_said_before_any_work() -> None:
    tower = Line()
    task = line_task(tower)
    support = shots(task)
    few = support.labels != 1
    with pytest.raises(InputError, match="no shot of 1 of 3 classes: 'class 1'"):
        next(train("coop", task, Support(support.features[few], support.labels[few]), Course()))
    with pytest.raises(InputError, match="5 shots were asked for; the support has 4 of 'class 0'"):
        drawn(support, 5, 0)
    with pytest.raises(InputError, match="too long"):
        next(train("coop", task, support, Course(tokens=9)))
    with pytest.raises(InputError, match="has none.*pip install 'cosmic-tta\\[torch\\]'"):
        next(train("coop", replace(task, tower=None), support))
    with pytest.raises(InputError, match="in another order"):
        next(train("coop", task, Support(support.features, support.labels, ("x", "y", "z"))))
    with pytest.raises(UnknownNameError, match="did you mean 'coop'"):
        next(train("coup", task, support))
    with pytest.raises(ParameterError, match="epochs must be"):
        Course(epochs=-1)
    with pytest.raises(ParameterError, match="rate must be above 0"):
        Course(rate=0.0)
    assert tower.calls == 0


def test_a_method_without_its_tower_or_checkpoint_says_how_it_gets_one() -> None:
    task = line_task(Line())
    for method in ("tpt", "difftpt"):
        with pytest.raises(InputError, match="pip install 'cosmic-tta\\[torch\\]'"):
            make_method(method).init(replace(task, tower=None))
    with pytest.raises(ParameterError, match="cosmic train coop"):
        make_method("coop")
    with pytest.raises(ParameterError, match="trained for coop, not for cocoop"):
        make_method("cocoop", checkpoint=Learned("coop", {}, {}))
    with pytest.raises(InputError, match="the text tower is of 3 classes"):
        Task(("a", "b", "c"), task.text, tower=task.tower)


@pytest.mark.torch
def test_on_the_embedded_pair_a_few_shots_of_a_shift_help() -> None:
    pytest.importorskip("torch")
    from cosmic_tta.corruptions import Corruption
    from cosmic_tta.demo import shifted_pack
    from cosmic_tta.towers import with_tower

    pack = with_tower(shifted_pack(Corruption("pixelation", 4), 700), device="cpu")
    assert pack.labels is not None
    stream, support = part(pack, slice(0, 400)), part(pack, slice(400, None)).support()
    learned = trained("coop", pack.task(), support, Course(shots=16, rate=0.3, epochs=40, class_specific=True))
    assert score(make_method("coop", checkpoint=learned), stream).report.metrics["gain"] >= 0.05


@pytest.mark.torch
def test_on_the_embedded_pair_tpt_does_no_harm_to_a_shifted_stream() -> None:
    pytest.importorskip("torch")
    from cosmic_tta.experiments.embedded import embedded_views
    from cosmic_tta.towers import with_tower

    stream = with_tower(embedded_views(200, 16), device="cpu")
    run = score(make_method("tpt"), stream, order="given", calibrate=False)
    assert run.report.metrics["gain"] >= 0
    assert (run.scores != run.parts["zero_shot"]).any()  # and it did something
