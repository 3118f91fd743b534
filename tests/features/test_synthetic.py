from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cosmic_tta.core.errors import InputError
from cosmic_tta.features.pack import check_pack
from cosmic_tta.features.synthetic import superclass_pack


def test_a_generated_pack_is_the_same_for_the_same_seed() -> None:
    one, two, other = superclass_pack(1, images=10), superclass_pack(1, images=10), superclass_pack(2, images=10)
    np.testing.assert_array_equal(one.clip, two.clip)
    assert not np.array_equal(one.clip, other.clip)


def test_a_generated_pack_is_valid_and_has_the_sizes_asked_for(tmp_path: Path) -> None:
    pack = superclass_pack(0, images=30, superclasses=9, members=2, views=3, dim=16, aux_dim=8)
    assert (pack.clip.shape, pack.text.shape) == ((30, 3, 16), (18, 16))
    assert pack.aux is not None
    assert pack.aux.shape == (30, 8)
    assert pack.class_names[-2:] == ("bird 3", "bird 4")  # the ninth superclass has the first one's name
    pack.write(tmp_path / "pack")
    assert not list(check_pack(tmp_path / "pack"))


def test_the_shift_costs_zero_shot_accuracy_and_auxiliary_features_help() -> None:
    pack = superclass_pack(0, images=600)
    assert pack.labels is not None
    assert pack.aux is not None
    zero_shot = np.mean((pack.clip[:, 0] @ pack.text.T).argmax(axis=1) == pack.labels)
    means = np.stack([pack.aux[pack.labels == label].mean(axis=0) for label in range(20)])
    auxiliary = np.mean((pack.aux @ means.T).argmax(axis=1) == pack.labels)
    assert 0.3 < zero_shot < 0.9
    assert auxiliary > zero_shot


def test_impossible_sizes_are_refused() -> None:
    with pytest.raises(InputError, match="at least one image, superclass"):
        superclass_pack(images=0)
    with pytest.raises(InputError, match="a seed must be 0 or more; given -1"):
        superclass_pack(-1)
