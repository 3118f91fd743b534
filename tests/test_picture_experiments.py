from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from cosmic_tta.charts import Outcome
from cosmic_tta.drawing.plots import plot
from cosmic_tta.encoders import make_encoder
from cosmic_tta.experiments import affinity, attention, clusters, queried, samples, tsne
from cosmic_tta.experiments.context import Context
from cosmic_tta.maps import occlusion_map, overlaid, token_map
from cosmic_tta.packs import FeaturePack
from cosmic_tta.projection import tsne as flat

pytestmark = pytest.mark.pathless

EXPERIMENTS: dict[str, tuple[Callable[[Context], Outcome], list[str]]] = {
    "affinity": (affinity.affinity, ["heat"] * 2),
    "clusters": (clusters.clusters, ["points"] * 2),
    "tsne-classes": (tsne.classes, ["points"] * 3),
    "tsne-caches": (tsne.caches, ["points"] * 2),
    "attention": (attention.attention, ["pictures"]),
    "queried": (queried.queried, ["pictures"]),
}


@pytest.fixture(scope="module")
def few() -> pytest.MonkeyPatch:
    patch = pytest.MonkeyPatch()
    patch.setattr(samples, "EMBEDDED", 80)
    patch.setattr(attention, "SHOWN", 2)
    return patch


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_runs_to_its_end_and_draws(name: str, pack: FeaturePack, few: pytest.MonkeyPatch) -> None:
    run, kinds = EXPERIMENTS[name]
    outcome = run(Context(packs=(pack,), seeds=(0,)))
    assert outcome.name == name
    assert [chart.kind for chart in outcome.charts] == kinds
    for chart in outcome.charts:
        assert chart.pictures if chart.kind == "pictures" else plot(chart)["data"]
    absent = "its pictures are not at hand" in " ".join(outcome.missing)
    assert absent == (name in ("attention", "queried"))


@pytest.mark.parametrize("name", ["affinity", "clusters", "tsne-classes", "tsne-caches", "queried"])
def test_what_a_pack_lacks_is_told(name: str, pack: FeaturePack, few: pytest.MonkeyPatch) -> None:
    bare = replace(pack, aux=None, labels=None)
    outcome = EXPERIMENTS[name][0](Context(packs=(bare,), seeds=(0,), limit=60))
    assert outcome.missing or name == "clusters"


def test_the_better_space_is_further_apart() -> None:
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1, 2], 20)
    means = rng.standard_normal((3, 8))
    found = []
    for noise in (0.2, 3.0):
        rows = means[labels] + noise * rng.standard_normal((60, 8))
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        found.append(affinity.separation((rows @ rows.T).astype(np.float32), labels))
    (inside, between, apart, nearest), vague = found
    assert inside > between
    assert apart > 99 > vague[2] > 40
    assert nearest > vague[3]


def test_class_means_leave_an_image_with_itself_out() -> None:
    similar = np.array([[1, 0.5, 0.1], [0.5, 1, 0.3], [0.1, 0.3, 1]], np.float32)
    cells = affinity.class_means(similar, np.array([0, 0, 1]), [0, 1])
    assert cells[0] == pytest.approx([0.5, 0.2])
    assert np.isnan(cells[1, 1])


def test_confusable_classes_begin_with_the_worst_pair() -> None:
    text = np.eye(4, dtype=np.float32)
    clip = text[[0, 1, 3, 2, 3, 3]][:, None]  # class 2 is taken for 3 half of the time
    pack = FeaturePack("a", tuple("abcd"), clip, text, labels=np.array([0, 1, 2, 2, 3, 3]))
    assert sorted(affinity.confusable(pack, 2)) == [2, 3]


def test_gaussian_clusters_find_separate_clouds() -> None:
    rng = np.random.default_rng(1)
    rows = np.repeat(5 * np.eye(3, 10), 12, axis=0) + 0.1 * rng.standard_normal((36, 10))
    found = clusters.gaussian_clusters(rows.astype(np.float32), 3)
    assert [len(set(found[start : start + 12])) for start in (0, 12, 24)] == [1, 1, 1]
    assert len(set(found)) == 3


def test_a_query_is_one_that_adaptation_corrected(pack: FeaturePack) -> None:
    query = tsne.find_query(Context(packs=(pack,), seeds=(0,)), pack)
    assert pack.labels is not None
    assert query.step < 100
    assert query.target == int(pack.labels[query.index]) == query.answer != query.zero_shot
    assert int(query.memories[0].samples.max()) <= query.step


def test_near_rows_lie_near_in_the_plane() -> None:
    rng = np.random.default_rng(0)
    rows = np.repeat(np.eye(4, 12), 15, axis=0) + 0.05 * rng.standard_normal((60, 12))
    at = flat(rows.astype(np.float32))
    assert at.shape == (60, 2)
    distance = np.linalg.norm(at[:, None] - at[None], axis=2)
    same = np.equal.outer(np.arange(60) // 15, np.arange(60) // 15)
    assert distance[same].max() < distance[~same].min()
    assert np.array_equal(at, flat(rows.astype(np.float32)))


@pytest.mark.parametrize("count", [0, 1, 2, 3, 5])
def test_few_rows_lie_flat_too(count: int) -> None:
    assert flat(np.eye(8, dtype=np.float32)[:count]).shape == (count, 2)


def test_an_occlusion_map_is_bright_where_the_picture_is_not_plain() -> None:
    pixels = np.full((32, 32, 3), 120, np.uint8)
    pixels[2:10, 2:10] = np.random.default_rng(0).integers(256, size=(8, 8, 3), dtype=np.uint8)
    encoder = make_encoder("mini:dino", kind="image")
    found = occlusion_map(encoder, pixels)
    assert (found.min(), found.max()) == (0, 1)
    assert found[:4, :4].mean() > 3 * found[4:, 4:].mean()
    tokens = token_map(encoder, pixels)
    assert tokens.shape == (4, 4)
    assert overlaid(pixels, tokens, 40).shape == (40, 40, 3)
