"""BayesMeans as a whole: what it must reach on real features, and what a step may do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosmic_tta import BayesMeans, Sample, Task, ZeroShot
from cosmic_tta.core.arrays import Array, Ints, as_float32, unit
from cosmic_tta.core.kernel import COMPILED
from cosmic_tta.core.state_tree import state_digest
from cosmic_tta.data.images.corrupt import Corruption
from cosmic_tta.evaluation.evaluator import run_evaluation
from cosmic_tta.features.embedded_pack import shifted_pack
from cosmic_tta.features.pack import FeaturePack
from cosmic_tta.features.synthetic import superclass_pack
from cosmic_tta.methods.bayes_means import method as module
from cosmic_tta.methods.components import gaussian_classes
from tests.support.paths import ROOT

WHURS = ("whurs19-rn50", "whurs19-vitb32")


def mean_metrics(
    pack: FeaturePack, order: str = "shuffle", aux: str = "given", seeds: int = 5, calibrate: bool = False
) -> dict[str, float]:
    runs = [
        run_evaluation(BayesMeans(), pack, order=order, aux=aux, seed=seed, calibrate=calibrate).report.metrics
        for seed in range(seeds)
    ]
    return {name: float(np.mean([run[name] for run in runs])) for name in ("acc1", "ece", "gain", "zero_shot_acc1")}


@pytest.mark.pathless
@pytest.mark.parametrize(
    ("name", "aux", "floor"),
    [
        ("whurs19-rn50", "given", 0.967), ("whurs19-rn50", "none", 0.911), ("whurs19-vitb32", "given", 0.966),
        ("whurs19-vitb32", "none", 0.931), ("pets23", "given", 0.965), ("pets23", "none", 0.945),
        ("sun47", "given", 0.883), ("food8", "given", 0.9625), ("cars", "given", 0.610),
    ],
)  # fmt: skip
def test_it_reaches_its_accuracy_on_shuffled_streams(shared: Path, name: str, aux: str, floor: float) -> None:
    metrics = mean_metrics(FeaturePack.open(shared / "packs" / name), aux=aux)
    assert metrics["acc1"] >= floor
    assert metrics["gain"] > 0
    if name in WHURS:
        assert metrics["ece"] <= 0.03


@pytest.mark.pathless
@pytest.mark.parametrize(("name", "floor"), [("whurs19-rn50", 0.905), ("whurs19-vitb32", 0.91)])
def test_it_gains_where_one_class_comes_after_the_other(shared: Path, name: str, floor: float) -> None:
    assert mean_metrics(FeaturePack.open(shared / "packs" / name), "class-sequential")["acc1"] >= floor


@pytest.mark.pathless
@pytest.mark.parametrize("name", WHURS)
def test_it_gains_where_classes_are_uneven(shared: Path, name: str) -> None:
    pack = FeaturePack.open(shared / "packs" / name)
    assert mean_metrics(pack, "long-tailed", aux="none")["gain"] >= 0.06
    assert mean_metrics(pack, "long-tailed")["gain"] >= 0.075


@pytest.mark.pathless
@pytest.mark.parametrize("useless", ["random", "shuffled"])
@pytest.mark.parametrize("name", WHURS)
def test_a_useless_auxiliary_costs_nothing(shared: Path, name: str, useless: str) -> None:
    pack = FeaturePack.open(shared / "packs" / name)
    alone, spoiled = (mean_metrics(pack, aux=aux, seeds=3)["acc1"] for aux in ("none", useless))
    assert abs(spoiled - alone) <= 0.005
    method, variant = BayesMeans(), pack.with_aux(useless, 0)
    state = method.init(variant.task())
    last = method.steps(state, [variant.sample(index) for index in range(300)])[-1]
    assert last.why.reliability["aux"] < 0.1 < last.why.reliability["clip"]


def test_absent_classes_do_little_harm(shared: Path) -> None:
    """Five of the nineteen classes come."""
    pack = FeaturePack.open(shared / "packs" / "whurs19-vitb32").with_aux("none")
    assert pack.labels is not None
    gains = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        present = rng.choice(19, 5, replace=False)
        order = rng.permutation(np.flatnonzero(np.isin(pack.labels, present)))
        answers, zero_shot = answers_of(BayesMeans(), pack, order)
        gains.append((answers == pack.labels[order]).mean() - (zero_shot == pack.labels[order]).mean())
    assert np.mean(gains) >= -0.02


@pytest.mark.parametrize("seed", range(3))
def test_many_classes_of_which_zero_shot_prefers_a_few_do_not_look_uneven(seed: int) -> None:
    rng = np.random.default_rng(seed)
    text, labels = rng.standard_normal((400, 64)), rng.permutation(np.repeat(np.arange(400), 3))[:400]
    clip = text[labels] + text[:5].sum(axis=0) / 2 + 1.4 * rng.standard_normal((400, 64))
    task = Task(tuple(map(str, range(400))), unit(as_float32(text)), 20.0)
    method = BayesMeans()
    state = method.init(task)
    seen = [method.step(state, Sample(row[None])) for row in unit(as_float32(clip))]
    zero_shot = np.mean([each.parts["zero_shot"].argmax() == label for each, label in zip(seen, labels, strict=True)])
    assert np.mean([each.label == label for each, label in zip(seen, labels, strict=True)]) > zero_shot + 0.05
    assert state.uneven_odds < 0


def answers_of(method: BayesMeans, pack: FeaturePack, order: Ints) -> tuple[Ints, Ints]:
    """Return the method's answers and those of zero-shot on a stream."""
    state = method.init(pack.task())
    predictions = [method.step(state, pack.sample(int(index))) for index in order]
    zero_shot = [int(prediction.parts["zero_shot"].argmax()) for prediction in predictions]
    return np.array([prediction.label for prediction in predictions]), np.array(zero_shot)


@pytest.mark.pathless
def test_it_follows_a_drift() -> None:
    """After 600 clean photographs come 1,200 with much noise."""
    clean, noisy = shifted_pack(Corruption("noise", 1), 600), shifted_pack(Corruption("noise", 5), 1200)
    assert clean.labels is not None
    assert noisy.labels is not None
    both = replace(
        clean,
        clip=np.concatenate([clean.clip, noisy.clip]),
        aux=None if clean.aux is None or noisy.aux is None else np.concatenate([clean.aux, noisy.aux]),
        labels=np.concatenate([clean.labels, noisy.labels]),
        keys=(),
    )
    assert both.labels is not None
    followed, afresh, zero_shot = [], [], []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        before, after = rng.permutation(600), 600 + rng.permutation(1200)
        labels = both.labels[after[-600:]]
        followed.append((answers_of(BayesMeans(), both, np.concatenate([before, after]))[0][-600:] == labels).mean())
        fresh = [answers[-600:] == labels for answers in answers_of(BayesMeans(), both, after)]
        afresh.append(fresh[0].mean())
        zero_shot.append(fresh[1].mean())
    assert np.mean(followed) >= np.mean(afresh) - 0.02
    assert np.mean(followed) >= np.mean(zero_shot) + 0.04


class Watched:
    """A stepped stream, with the number of rows that each step labelled anew and where its sweep stood."""

    def __init__(self, method: BayesMeans, pack: FeaturePack, monkeypatch: pytest.MonkeyPatch) -> None:
        self.rows: list[int] = []
        self.places: list[tuple[int, int]] = []
        real = gaussian_classes.relabel

        def relabel(rows: Array, *others: Any) -> Array:
            if np.shares_memory(rows, self.state.window.samples):
                self.rows[-1] += len(rows)
            return real(rows, *others)

        with monkeypatch.context() as patch:
            patch.setattr(gaussian_classes, "relabel", relabel)
            self.state = method.init(pack.task())
            for index in range(len(pack)):
                self.rows.append(0)
                method.step(self.state, pack.sample(index))
                self.places.append((self.state.sweep_pass, self.state.cursor))


@pytest.mark.parametrize(("window", "rows"), [(16, 16), (2, 3), (1, 1), (3, 300)])
def test_no_step_labels_more_than_its_share(window: int, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MIN_WINDOW", 60)
    pack = superclass_pack(1, images=500, dim=16, aux_dim=8, views=1, superclasses=3, members=2)
    watched = Watched(BayesMeans(window=window, rows_per_step=rows), pack, monkeypatch)
    assert watched.rows[:19] == [0] * 19  # before the first sweep
    assert max(watched.rows) <= rows
    # A step does its whole share, except that it ends with the sweep.
    for done, place in zip(watched.rows[19:], watched.places[19:], strict=True):
        assert done == rows or (place == (0, 0) and done > 0)


def test_the_schedule_depends_on_counts_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    packs = [superclass_pack(seed, images=200, dim=16, aux_dim=8, views=1) for seed in (1, 2)]
    first, second = (Watched(BayesMeans(), pack, monkeypatch) for pack in packs)
    assert first.rows == second.rows
    assert first.places == second.places


def test_the_first_answer_is_zero_shot(pack: FeaturePack) -> None:
    first = BayesMeans().step(BayesMeans().init(pack.task()), pack.sample(0))
    alone = ZeroShot().step(ZeroShot().init(pack.task()), pack.sample(0))
    assert first.label == alone.label
    np.testing.assert_allclose(first.parts["zero_shot"], alone.scores, atol=1e-6)


@pytest.mark.parametrize("aux", ["given", "none"])
def test_peek_answers_as_the_step_does_and_changes_nothing(pack: FeaturePack, aux: str) -> None:
    method, pack = BayesMeans(), pack.with_aux(aux)
    state = method.init(pack.task())
    for index in range(60):
        before = state_digest(state)
        peeked = method.peek(state, pack.sample(index))
        assert state_digest(state) == before
        stepped = method.step(state, pack.sample(index))
        np.testing.assert_array_equal(peeked.scores, stepped.scores)
        assert peeked.why == stepped.why


def test_why_tells_reliability_counts_bias_and_the_samples_that_weigh_most(
    pack: FeaturePack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MIN_WINDOW", 40)
    method = BayesMeans(window=2)
    state = method.init(pack.task())
    for number in range(len(pack)):
        counts, label_of = state.live.soft_count.copy(), state.window.label.copy()
        confidence, rows, held, slot = (
            state.window.confidence.copy(),
            state.window.samples.copy(),
            state.window.held,
            state.window.slot,
        )
        prediction = method.step(state, pack.sample(number))
        method.peek(state, pack.sample(0))
        why = prediction.why
        assert set(why.reliability) == {"clip", "aux"}
        assert all(0.01 <= value <= 0.9 for value in why.reliability.values())
        assert list(why.soft_counts) == list(why.bias) == list(pack.class_names)
        assert list(why.soft_counts.values()) == counts.tolist()
        assert abs(sum(why.bias.values())) < 20
        # The votes are the most confident samples of the answer, each with its place in the stream.
        votes = why.votes["clip"]
        own = np.flatnonzero(label_of[:held] == prediction.label)
        assert len(votes) == min(8, len(own))
        weights = confidence[own] * (rows[own, : pack.clip.shape[2]] @ pack.clip[number, 0])
        position = {(slot - 1 - int(place)) % len(rows): weight for place, weight in zip(own, weights, strict=True)}
        for vote in votes:
            assert max(0, number - 40) <= vote.sample < number
            assert vote.label == pack.class_names[prediction.label]
            assert vote.weight == pytest.approx(position[number - 1 - vote.sample], abs=1e-6)
        assert [vote.weight for vote in votes] == sorted((vote.weight for vote in votes), reverse=True)
        assert len({vote.sample for vote in votes}) == len(votes)


@pytest.mark.skipif(COMPILED is None, reason="the compiled kernel is not in use")
@pytest.mark.parametrize("order", ["given", "class-sequential"])
@pytest.mark.parametrize("aux", ["given", "none"])
def test_both_paths_answer_alike(aux: str, order: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MIN_WINDOW", 100)
    pack = superclass_pack(5, images=400, dim=33, aux_dim=18, views=1, superclasses=4, members=3)
    compiled = run_evaluation(BayesMeans(window=4), pack, aux=aux, order=order, calibrate=False)
    monkeypatch.setattr(gaussian_classes, "COMPILED", None)
    plain = run_evaluation(BayesMeans(window=4), pack, aux=aux, order=order, calibrate=False)
    np.testing.assert_allclose(compiled.scores, plain.scores, atol=1e-4)
    for name, part in compiled.parts.items():
        np.testing.assert_allclose(part, plain.parts[name], atol=1e-4)


@given(st.integers(0, 10**6), st.integers(1, 5), st.integers(1, 3), st.integers(1, 50))
def test_any_small_stream_gives_sound_scores(seed: int, classes: int, window: int, rows: int) -> None:
    rng = np.random.default_rng(seed)
    features = unit(as_float32(rng.standard_normal((60, 4))))
    features[::7] = features[0]  # the same image again and again
    method = BayesMeans(window=window, rows_per_step=rows)
    names = tuple(f"class {k}" for k in range(classes))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "MIN_WINDOW", 5)
        state = method.init(Task(names, unit(as_float32(rng.standard_normal((classes, 4))))))
    for x in features:
        scores = method.step(state, Sample(x[None], x)).scores
        assert np.isfinite(scores).all()
        assert scores.sum() == pytest.approx(1, abs=1e-4)
    state.validate()


def test_the_same_image_again_and_again_is_answered(pack: FeaturePack) -> None:
    """No dimension varies."""
    method = BayesMeans()
    state = method.init(pack.task())
    for _ in range(80):
        assert np.isfinite(method.step(state, pack.sample(0)).scores).all()


@pytest.mark.pathless
@pytest.mark.parametrize("aux", ["given", "none"])
def test_many_classes_with_few_samples_each_are_learned(aux: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four samples a class fall unevenly by chance, and zero-shot has its favourites among so many."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    from hard_packs import thousand_classes

    run = run_evaluation(BayesMeans(), thousand_classes(0), aux=aux, limit=1500, calibrate=False)
    assert run.report.metrics["gain"] > 0
