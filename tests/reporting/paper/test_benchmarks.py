from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cosmic_tta.features.pack import FeaturePack
from cosmic_tta.reporting.paper import ExperimentContext, run_experiment
from cosmic_tta.reporting.paper.benchmarks import backbone_of, dataset_of


def test_packs_fill_the_rows_of_their_data_sets(small: FeaturePack) -> None:
    pack = replace(small, name="dtd-rn50", clip_model="clip-resnet:RN50.pt")
    results = run_experiment("table-cd", ExperimentContext((pack,), seeds=(0,)))
    table = next(table for table in results.tables if table.name == "table-cd-rn50")
    rows = {row[1]: row for row in table.rows if row[0] == "DTD"}
    ours = table.columns.index("ours")
    assert rows["CLIP"][ours] is not None
    assert rows["Bayesian class means (ours)"][ours] is not None
    assert rows["CoOp"][ours] is None
    assert "60 of 1692 images" in str(rows["CLIP"][-1])
    assert all(row[ours] is None for row in table.rows if row[0] != "DTD")
    assert not any("DTD, RN50" in sentence for sentence in results.missing)
    assert any("cosmic extract food101" in sentence for sentence in results.missing)
    assert any(sentence.startswith("Tip-Adapter") for sentence in results.missing)


def test_the_chart_has_the_published_numbers(small: FeaturePack) -> None:
    pack = replace(small, name="dtd-rn50", clip_model="clip-resnet:RN50.pt")
    (chart,) = run_experiment("table-cd", ExperimentContext((pack,), seeds=(0,))).charts
    values = {series.name: dict(zip(series.x, series.y, strict=True)) for series in chart.series}
    assert set(values) == {"ours", "published", "published oracle"}
    assert values["published"]["CLIP"] == 40.37
    assert np.isnan(values["published"]["DMN"]), "its weights were searched on labels"
    assert values["published oracle"]["DMN"] > 40


def test_averages_need_all_data_sets(small: FeaturePack) -> None:
    names = ("imagenet", "imagenet_a", "imagenet_v2", "imagenet_r", "imagenet_sketch")
    packs = tuple(replace(small, name=f"{name}-vitb16", clip_model="ViT-B/16") for name in names)
    for given, expected in ((packs, True), (packs[:-1], False)):
        context = ExperimentContext(given, seeds=(0,), limit=5)
        table = next(table for table in run_experiment("table-ood", context).tables if "vit-b-16" in table.name)
        averages = [row[2] for row in table.rows if row[0] in ("Average", "OOD Average") and row[1] == "CLIP"]
        assert [average is not None for average in averages] == [expected] * 2


def test_the_data_set_of_a_pack_is_read_from_its_name(small: FeaturePack) -> None:
    datasets = {"ImageNet": "imagenet", "ImageNet-A": "imagenet_a"}
    assert dataset_of(replace(small, name="imagenet_a-vitb16"), datasets) == "imagenet_a"
    assert dataset_of(replace(small, name="ImageNet, test"), datasets) == "imagenet"
    assert dataset_of(replace(small, name="whurs19"), datasets) is None


@pytest.mark.parametrize(
    ("model", "backbone"),
    [
        ("OpenAI CLIP RN50", "RN50"),
        ("clip-resnet:RN50x4.pt", None),
        ("hf:openai/clip-vit-base-patch16", "ViT-B/16"),
        ("ViT-B/16", "ViT-B/16"),
        ("OpenAI CLIP ViT-B/32", None),
    ],
)
def test_the_backbone_of_a_pack_is_read_from_its_model(model: str, backbone: str | None, small: FeaturePack) -> None:
    assert backbone_of(replace(small, clip_model=model)) == backbone
