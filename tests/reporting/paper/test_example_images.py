from __future__ import annotations

from dataclasses import replace

import numpy as np

from cosmic_tta.features.pack import FeaturePack
from cosmic_tta.reporting.paper import ExperimentContext
from cosmic_tta.reporting.paper.embedded_packs import embedded_pack
from cosmic_tta.reporting.paper.example_images import choose_examples, pack_with_images, top_classes, true_class


def test_corrected_images_of_different_classes_come_first(pack: FeaturePack) -> None:
    run = ExperimentContext((pack,), seeds=(0,)).run("cosmic", pack)
    examples = choose_examples(run, pack, 5)
    assert pack.labels is not None
    labels = [int(pack.labels[example.index]) for example in examples]
    assert len(set(labels)) == 5
    adapted, zero_shot = run.scores.argmax(axis=1), run.parts["zero_shot"].argmax(axis=1)
    corrected = (adapted == pack.labels[run.order]) & (zero_shot != pack.labels[run.order])
    assert corrected[examples[0].step]
    assert all(example.index == run.order[example.step] for example in examples)
    assert true_class(pack, examples[0]) == pack.class_names[labels[0]]
    assert true_class(replace(pack, labels=None), examples[0]) is None


def test_a_pack_without_images_is_replaced_and_named(small: FeaturePack, few_images: None) -> None:
    pack, missing = pack_with_images(ExperimentContext((small,)))
    assert pack is embedded_pack(80)
    assert len(missing) == 1
    assert missing[0].startswith(f"{small.name}: its images are not available")
    assert pack_with_images(ExperimentContext((pack,))) == (pack, [])


def test_top_classes_leave_out_zeros() -> None:
    scores = np.array([0.0, 0.5, 0.2, 0.0], np.float32)
    assert [name for name, _ in top_classes("abcd", scores)] == ["b", "c"]
    assert [name for name, _ in top_classes("abcd", scores, 1)] == ["b"]
