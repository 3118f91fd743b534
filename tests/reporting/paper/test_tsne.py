from __future__ import annotations

import numpy as np

from cosmic_tta.features.pack import FeaturePack
from cosmic_tta.reporting.paper import ExperimentContext
from cosmic_tta.reporting.paper.tsne import find_query, silhouette, tsne_caches, tsne_classes


def test_a_query_is_one_that_adaptation_corrected(pack: FeaturePack) -> None:
    query = find_query(ExperimentContext(packs=(pack,), seeds=(0,)), pack)
    assert pack.labels is not None
    assert query.step < 100
    assert query.target == int(pack.labels[query.index]) == query.adapted != query.zero_shot
    assert int(query.memories[0].samples.max()) <= query.step


def test_ranks_are_by_similarity_in_the_feature_space(pack: FeaturePack) -> None:
    context = ExperimentContext(packs=(pack,), seeds=(0,))
    query = find_query(context, pack)
    (table,) = tsne_classes(context).tables
    similarities = pack.clip[query.index, 0] @ pack.text.T
    rank = int((similarities > similarities[query.target]).sum()) + 1
    assert table.rows[0] == ("text class centres", 20, 1, rank, 100 * (rank - 1) / 20)


def test_caches_are_judged_by_their_pseudo_labels(small: FeaturePack) -> None:
    (table,) = tsne_caches(ExperimentContext(packs=(small,), seeds=(0,))).tables
    assert [row[0] for row in table.rows] == ["CLIP cache", "auxiliary cache"]
    for _, images, by_pseudo_label, by_label, correct in table.rows:
        assert 0 < int(str(images)) <= 60
        assert -1 <= float(str(by_label)) <= 1
        assert -1 <= float(str(by_pseudo_label)) <= 1
        assert 0 < float(str(correct)) <= 100


def test_a_silhouette_needs_several_classes_with_several_rows() -> None:
    rows = np.repeat(np.eye(2, 4, dtype=np.float32), 3, axis=0)
    labels = np.repeat([0, 1], 3)
    assert silhouette(rows, labels) == 1
    assert silhouette(rows, np.zeros(6, int)) is None
    assert silhouette(rows, np.arange(6)) is None
