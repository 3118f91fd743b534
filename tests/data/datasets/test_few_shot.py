from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cosmic_tta.core.errors import DatasetError
from cosmic_tta.data.datasets import few_shot, load_dataset
from tests.support import trees

SAMPLED = [
    "n01440764/n01440764_1.JPEG",
    "n01440764/n01440764_9.JPEG",
    "n03773504/n03773504_10.JPEG",
    "n03773504/n03773504_9.JPEG",
    "n04008634/n04008634_10.JPEG",
    "n04008634/n04008634_9.JPEG",
    "n07873807/n07873807_1.JPEG",
    "n07873807/n07873807_10.JPEG",
]


def test_few_shots_are_the_same_everywhere(tmp_path: Path) -> None:
    trees.imagenet(tmp_path)
    train = load_dataset("imagenet", tmp_path, "train", strict=False)
    two = few_shot(train, 2, seed=1)
    # Recorded once: every machine must sample these.
    sampled = [item.key for item in two.items]
    assert sampled == SAMPLED
    assert [item.label for item in two.items] == [0, 0, 1, 1, 2, 2, 3, 3]
    backwards = replace(train, items=train.items[::-1])
    assert {item.key for item in few_shot(backwards, 2, seed=1).items} == set(sampled)
    assert {item.key for item in few_shot(train, 1, seed=1).items} < set(sampled)
    assert [item.key for item in few_shot(train, 2, seed=2).items] != sampled
    all_of_them = few_shot(train, 16)
    assert len(all_of_them) == len(train)
    assert "classes with fewer than 16 images: 4 of 4" in all_of_them.notes[-1]
    with pytest.raises(DatasetError, match="shots must be a whole number, at least 1; given 0"):
        few_shot(train, 0)
    with pytest.raises(DatasetError, match="has no labels"):
        few_shot(replace(train, items=(replace(train.items[0], label=None),)), 1)
