from __future__ import annotations

import pytest

from cosmic_tta.features.pack import FeaturePack
from cosmic_tta.reporting.paper import ExperimentContext, run_experiment
from cosmic_tta.reporting.paper.seed_accuracy import labels_in_order


def test_recall_grows_with_the_number_of_classes(pack: FeaturePack, few_images: None) -> None:
    context = ExperimentContext((pack,), seeds=(0,))
    recall, examples = run_experiment("retrieved-classes", context).tables
    assert [row[0] for row in recall.rows] == ["cache", "CSS", "AFV"]
    run = context.run("cosmic", pack)
    for (_, retrieved, first, three, five), part in zip(recall.rows, ("clip_cache", "css", "afv"), strict=True):
        assert 0 <= float(str(first)) <= float(str(three)) <= float(str(five)) <= 100
        assert retrieved == pytest.approx((run.parts[part] > 0).sum(axis=1).mean())
        labels, scores = labels_in_order(run, pack), run.parts[part]
        own = scores[range(len(labels)), labels]
        assert first == pytest.approx(100 * ((own > 0) & (own >= scores.max(axis=1))).mean())
    assert examples.columns == ("image", "true class", "cache", "CSS", "AFV")
    assert len(examples.rows) == 8


def test_captions_name_the_true_class_and_what_each_branch_retrieved(pack: FeaturePack, few_images: None) -> None:
    (chart,) = run_experiment("retrieved-classes", ExperimentContext((pack,), seeds=(0,))).charts
    for _, caption in chart.images:
        heading, *branches = caption.split("\n")
        assert heading.startswith("true class: ")
        assert [line.split(":")[0] for line in branches] == ["cache", "CSS", "AFV"]
        assert all(len(line.partition(": ")[2].split(", ")) <= 3 for line in branches)
