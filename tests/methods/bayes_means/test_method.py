from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosmic_tta import BayesMeans, Sample, Task, ZeroShot
from cosmic_tta.core.arrays import Array, as_float32, unit
from cosmic_tta.core.errors import SnapshotError
from cosmic_tta.data.images.corrupt import Corruption
from cosmic_tta.evaluation.evaluator import iter_predictions, run_evaluation
from cosmic_tta.evaluation.streams.registry import make_stream
from cosmic_tta.features.embedded_pack import shifted_pack
from cosmic_tta.features.pack import FeaturePack
from cosmic_tta.features.synthetic import superclass_pack
from cosmic_tta.methods.bayes_means import method, state
from tests.support.paths import ROOT

# As first found: nothing leaves, a sweep is done at once, and none of the later guards.
PLAIN = BayesMeans(
    items_per_class=0,
    rows_per_step=0,
    mean_prior=10,
    proof=0,
    gradual=False,
    doubt=0,
    lean=0,
    apart=0,
    unsure=0,
    balanced=False,
)
PACKS = ("whurs19-rn50", "whurs19-vitb32")


def without_aux(pack: FeaturePack) -> FeaturePack:
    return replace(pack, aux=None)


@pytest.mark.parametrize("aux", [True, False])
@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("name", PACKS)
def test_plain_settings_are_the_plain_rendering(shared: Path, name: str, seed: int, aux: bool) -> None:
    pack = FeaturePack.open(shared / "packs" / name)
    recorded = np.load(shared / "golden" / f"bayes_{name}.npz")[f"seed{seed}_scores{'' if aux else '_noaux'}"]
    run = run_evaluation(PLAIN, pack if aux else without_aux(pack), seed=seed)
    assert (run.scores.argmax(axis=1) == recorded.argmax(axis=1)).mean() >= 0.995
    assert (np.abs(run.scores - recorded).max(axis=1) < 1e-3).mean() >= 0.99


@pytest.mark.parametrize(
    ("name", "aux", "floor"),
    [(PACKS[0], True, 0.963), (PACKS[1], True, 0.962), (PACKS[0], False, 0.899), (PACKS[1], False, 0.924)],
)
def test_default_settings_on_real_features(shared: Path, name: str, floor: float, aux: bool) -> None:
    pack = FeaturePack.open(shared / "packs" / name)
    metrics = [
        run_evaluation(BayesMeans(), pack if aux else without_aux(pack), seed=seed).report.metrics for seed in range(5)
    ]
    assert np.mean([m["acc1"] for m in metrics]) >= floor
    assert np.mean([m["ece"] for m in metrics]) <= 0.03


@pytest.mark.parametrize(
    ("order", "seeds", "floors"),
    [("class-sequential", 5, (0.875, 0.875)), ("dirichlet", 5, (0.88, 0.895)), ("dominant", 20, (0.692, 0.823)),
     ("long-tailed", 8, (0.80, 0.83))],
)  # fmt: skip
def test_it_holds_on_correlated_and_uneven_streams(
    shared: Path, order: str, seeds: int, floors: tuple[float, float]
) -> None:
    for name, floor in zip(PACKS, floors, strict=True):
        pack = FeaturePack.open(shared / "packs" / name)
        accuracies = [
            run_evaluation(BayesMeans(), pack, order=order, seed=seed).report.metrics["acc1"] for seed in range(seeds)
        ]
        assert np.mean(accuracies) >= floor


class Watched:
    """A stepped stream, with the rows that each step labelled anew."""

    def __init__(self, method: BayesMeans, pack: FeaturePack, monkeypatch: pytest.MonkeyPatch) -> None:
        self.rows: list[int] = []
        real = BayesMeans._relabel

        def relabel(this: BayesMeans, state: Any, rows: slice, mood: Any) -> None:
            self.rows[-1] += rows.stop - rows.start
            real(this, state, rows, mood)

        monkeypatch.setattr(BayesMeans, "_relabel", relabel)
        self.state = method.init(pack.task())
        self.sweeps = 0
        for index in range(len(pack)):
            self.rows.append(0)
            before = self.state.next_sweep
            method.step(self.state, pack.sample(index))
            self.sweeps += self.state.next_sweep != before
            tally = self.state.live
            # Whatever came, left, or was labelled anew: each sample counts once.
            if method.remember == 1:
                assert tally.soft_count.sum() == pytest.approx(self.state.seen, rel=1e-4)


@pytest.mark.parametrize(("items", "rows"), [(16, 16), (2, 3), (1, 1), (3, 100)])
def test_no_step_labels_more_than_its_share_and_every_sample_counts_once(
    items: int, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    pack = superclass_pack(1, images=500, dim=16, aux_dim=8, views=1, superclasses=3, members=2)
    watched = Watched(BayesMeans(items_per_class=items, rows_per_step=rows, remember=1, unsure=0), pack, monkeypatch)
    assert max(watched.rows) <= rows
    assert sum(watched.rows) > 200
    assert watched.sweeps >= 3


def test_the_schedule_depends_on_the_count_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = (superclass_pack(seed, images=200, dim=16, aux_dim=8, views=1) for seed in (1, 2))
    rows = []
    for pack in (first, second):
        with monkeypatch.context() as patch:
            rows.append(Watched(BayesMeans(), pack, patch).rows)
    assert rows[0] == rows[1]


def novel_likelihood(x: Array, sums: Array, mass: float, rho: float, d: float) -> float:
    """The textbook answer: log N(x; posterior mean, posterior predictive spread), d effective dimensions.

    A class mean has the prior N(0, ρ), a sample N(mean, 1 - ρ): after `mass` samples that add up to `sums`.
    """
    precision = 1 / rho + mass / (1 - rho)
    mean = sums / (1 - rho) / precision
    variance = 1 / precision + 1 - rho
    return float(-0.5 * d * (np.log(variance) + ((x - mean) ** 2).sum() / variance))


def test_the_evidence_is_the_posterior_predictive_likelihood() -> None:
    rng = np.random.default_rng(0)
    task = Task(("a", "b", "c"), np.eye(3, 8, dtype=np.float32))
    method = BayesMeans()
    tally = method.init(task).live
    rows = unit(as_float32(rng.standard_normal((12, 8))))
    labels = unit(np.abs(as_float32(rng.standard_normal((12, 3))))) ** 2
    labels[:, 2] = 0  # a class without any sample: novel
    labels /= labels.sum(axis=1, keepdims=True)
    tally.add(labels, (rows,), np.ones(12, np.float32))
    x = unit(as_float32(rng.standard_normal(8)))
    nothing = np.zeros(8, np.float32)  # no running mean to take away
    evidence, rho = method._model().log_likelihood(x, tally.soft_count, tally.square, tally.clip.classes, nothing, 12)
    for k in range(3):
        # The formula keeps |x|² = 1 and drops no constant, so the two agree outright.
        expected = novel_likelihood(x, tally.clip.classes[k], float(tally.soft_count[k]), rho, method.sharpness)
        assert evidence[k] == pytest.approx(expected, abs=1e-4)


def test_a_useless_auxiliary_turns_itself_off(shared: Path) -> None:
    for name in PACKS:
        pack = FeaturePack.open(shared / "packs" / name)
        assert pack.aux is not None
        alone = np.mean(
            [run_evaluation(BayesMeans(), without_aux(pack), seed=seed).report.metrics["acc1"] for seed in (0, 1)]
        )
        rng = np.random.default_rng(5)
        noise = unit(as_float32(rng.standard_normal(pack.aux.shape)))
        for useless in (noise, pack.aux[rng.permutation(len(pack))]):
            spoiled = replace(pack, aux=useless)
            accuracy = np.mean(
                [run_evaluation(BayesMeans(), spoiled, seed=seed).report.metrics["acc1"] for seed in (0, 1)]
            )
            assert accuracy >= alone - 0.005
            state = BayesMeans().init(spoiled.task())
            last = BayesMeans().steps(state, [spoiled.sample(i) for i in range(300)])[-1]
            assert last.why.reliability["aux"] < 0.1 < last.why.reliability["clip"]


def test_the_first_answer_is_zero_shot(pack: FeaturePack) -> None:
    first = BayesMeans().step(BayesMeans().init(pack.task()), pack.sample(0))
    alone = ZeroShot().step(ZeroShot().init(pack.task()), pack.sample(0))
    assert first.label == alone.label


def test_why_tells_reliability_counts_bias_and_the_samples_that_weigh_most(pack: FeaturePack) -> None:
    method = BayesMeans(items_per_class=2, remember=1, unsure=0)
    state = method.init(pack.task())
    answers = [method.step(state, pack.sample(i)) for i in range(len(pack))]
    why = answers[-1].why
    assert set(why.reliability) == {"clip", "aux"}
    assert all(0 < rho < 1 for rho in why.reliability.values())
    assert set(why.soft_counts) == set(why.bias) == set(pack.class_names)
    assert sum(why.soft_counts.values()) == pytest.approx(len(pack) - 1, rel=1e-3)
    samples = [vote.sample for vote in why.votes["clip"]]
    assert len(set(samples)) == len(samples) == 8
    assert all(len(pack) - 1 - 40 <= sample < len(pack) - 1 for sample in samples)  # the ring holds the last forty
    assert not answers[0].why.votes["clip"]


@given(st.integers(0, 10**6), st.integers(1, 5), st.integers(0, 3), st.integers(0, 5))
def test_any_small_stream_gives_sound_scores(seed: int, classes: int, items: int, rows: int) -> None:
    rng = np.random.default_rng(seed)
    features = unit(as_float32(rng.standard_normal((60, 4))))
    features[::7] = features[0]  # the same image again and again
    method = BayesMeans(items_per_class=items, rows_per_step=rows, first_sweep=5)
    names = tuple(f"class {k}" for k in range(classes))
    state = method.init(Task(names, unit(as_float32(rng.standard_normal((classes, 4))))))
    for x in features:
        scores = method.step(state, Sample(x[None], x)).scores
        assert np.isfinite(scores).all()
        assert scores.sum() == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize(("name", "value"), [("sweep", 9), ("sweep", -1), ("cursor", 50)])
def test_a_sweep_that_cannot_be_is_refused(pack: FeaturePack, name: str, value: float) -> None:
    method = BayesMeans()
    state = method.init(pack.task())
    method.steps(state, [pack.sample(i) for i in range(25)])
    state.validate()
    setattr(state, name, value)
    with pytest.raises(SnapshotError, match="in a sweep that cannot be"):
        state.validate()


def test_a_shift_is_told_from_an_uneven_stream(shared: Path) -> None:
    """Zero-shot's classes are uneven in both; class means, and auxiliary features where there are any, know better."""
    pack = FeaturePack.open(shared / "packs" / PACKS[0])
    for aux in ("given", "none", "shuffled"):
        uneven = {}
        for order in ("shuffle", "long-tailed"):
            method = BayesMeans()
            *_, last = iter_predictions(method, make_stream(order, pack.with_aux(aux, 0), 0))
            assert isinstance(last.state, state.BayesMeansState)
            uneven[order] = method._mood(last.state).caution.uneven
        assert uneven["shuffle"] == 0, aux
        assert uneven["long-tailed"] > 0.6, aux


def test_zero_shot_is_left_alone_where_nothing_is_amiss() -> None:
    """Nearly clean photographs, few of them of most classes: class means would do harm, frequencies help."""
    pack = shifted_pack(Corruption("blur", 1), 1000)
    gains = {}
    for apart in (0.2, 0.0):
        runs = [
            run_evaluation(BayesMeans(apart=apart), pack, order="long-tailed", seed=seed, calibrate=False)
            for seed in range(3)
        ]
        gains[apart] = float(np.mean([run.report.metrics["gain"] for run in runs]))
    assert gains[0.0] < -0.01
    assert gains[0.2] > -0.005

    method = BayesMeans()
    *_, last = iter_predictions(method, make_stream("long-tailed", pack, 0))
    assert isinstance(last.state, state.BayesMeansState)
    caution = method._mood(last.state).caution
    assert caution.need < 0.1
    assert caution.told > caution.spared


def test_what_zero_shot_is_less_sure_of_than_of_most_teaches_less(pack: FeaturePack) -> None:
    method = BayesMeans(apart=0)  # an uneven stream would let all teach alike
    state = method.init(pack.task())
    taught = []
    for number in range(15):  # before the first sweep, which counts anew
        before = float(state.live.soft_count.sum())
        usual = method._mood(state).sure
        prediction = method.step(state, pack.sample(number))
        taught.append((float(prediction.parts["zero_shot"].max()), usual, float(state.live.soft_count.sum()) - before))
    assert taught[0][2] == pytest.approx(1, abs=1e-4)
    assert min(gained for *_, gained in taught) < 0.9
    for sure, usual, gained in taught[1:]:
        assert gained == pytest.approx(min(1, sure / usual) ** method.unsure, abs=1e-3)


def test_a_image_that_is_shown_again_teaches_nothing(pack: FeaturePack) -> None:
    method = BayesMeans(first_sweep=100)  # sweeps come by the count of samples, and would label one of them sooner
    once, often = method.init(pack.task()), method.init(pack.task())
    for number in range(12):
        for _ in range(1 + number % 3):
            method.step(often, pack.sample(number))
        method.step(once, pack.sample(number))
    assert often.seen == 24
    assert np.count_nonzero(often.sure) == 12
    assert np.array_equal(often.zero_shot_mass, once.zero_shot_mass)
    # What class means say differs a little: the running mean is of all samples.
    assert np.allclose(often.verdicts.mass, once.verdicts.mass, atol=0.2)
    assert np.allclose(often.course.recent, once.course.recent, atol=0.1)
    assert often.favour is not None
    assert once.favour is not None
    assert (often.course.trials, often.verdicts.judged) == (once.course.trials, once.verdicts.judged)
    assert often.favour.number == once.favour.number == 12
    assert float(often.live.soft_count.sum()) == pytest.approx(float(once.live.soft_count.sum()), abs=0.3)


@pytest.mark.pathless
def test_many_classes_with_few_samples_each_are_no_uneven_stream() -> None:
    """Four samples a class fall unevenly by chance, and zero-shot has its favourites among so many."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    from hard_packs import thousand_classes

    pack = thousand_classes(0)
    assert run_evaluation(BayesMeans(), pack).report.metrics["gain"] > 0.04
    assert run_evaluation(BayesMeans(), pack, aux="none").report.metrics["gain"] > 0.04


def test_samples_without_a_label_are_refused(pack: FeaturePack) -> None:
    state = BayesMeans().init(pack.task())
    state.label = state.label[1:]
    with pytest.raises(SnapshotError, match="without a label"):
        state.validate()


def test_constants_of_the_module_are_what_the_document_says() -> None:
    assert method.ANNEALING == (0.0, 0.3, 0.6, 1.0)
    assert len(method.ANNEALING) == state.IDLE
