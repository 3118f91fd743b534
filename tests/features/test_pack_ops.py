from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cosmic_tta.core.errors import PackError
from cosmic_tta.evaluation.streams.registry import make_stream
from cosmic_tta.features.pack import FeaturePack
from cosmic_tta.features.pack_ops import join


def halves(pack: FeaturePack) -> tuple[FeaturePack, FeaturePack]:
    assert pack.aux is not None
    assert pack.labels is not None
    one, two = (
        replace(pack, name=name, clip=pack.clip[part], aux=pack.aux[part], labels=pack.labels[part])
        for name, part in (("one", slice(0, 50)), ("two", slice(50, 120)))
    )
    return one, two


def test_joined_packs_are_domains_of_one(pack: FeaturePack) -> None:
    both = join(halves(pack))
    assert both.name == "one + two"
    assert both.domains is not None
    for part in ("clip", "aux", "labels", "text"):
        np.testing.assert_array_equal(getattr(both, part), getattr(pack, part))
    switching, mixed = (make_stream(name, both, 1) for name in ("switching", "mixed"))
    assert switching.domains is not None
    assert switching.domains.tolist() == [0] * 50 + [1] * 70
    assert set(switching.order[:50].tolist()) == set(range(50))
    np.testing.assert_array_equal(mixed.order, np.random.default_rng(1).permutation(120))
    assert mixed.pack is both  # nothing is moved where there are domains


def test_a_joined_pack_keeps_its_domains_on_disk(pack: FeaturePack, tmp_path: Path) -> None:
    join(halves(pack)).write(tmp_path / "both")
    read = FeaturePack.open(tmp_path / "both").domains
    assert read is not None
    assert read.tolist() == [0] * 50 + [1] * 70
    assert pack.domains is None
    np.save(tmp_path / "both" / "domains.npy", np.zeros(3, np.int64))
    with pytest.raises(PackError, match="domains must be whole numbers, one for each of 120 images"):
        FeaturePack.open(tmp_path / "both")


def test_what_is_not_one_task_is_not_joined(pack: FeaturePack) -> None:
    one, two = halves(pack)
    changed = {
        "class_names differs": replace(two, class_names=tuple(f"other {k}" for k in range(20))),
        "clip_model differs": replace(two, clip_model="another"),
        "logit_scale differs": replace(two, logit_scale=7.0),
        "class texts differ": replace(two, text=two.text[::-1]),
        "one has labels, the other has none": replace(two, labels=None),
        "one has aux, the other has none": replace(two, aux=None),
        r"clip is \[4, 32\] per image in one, \[2, 32\] in the other": replace(two, clip=two.clip[:, :2]),
    }
    for message, other in changed.items():
        with pytest.raises(PackError, match=f"packs 'one' and 'two' cannot be joined: .*{message}"):
            join([one, other])
    with pytest.raises(PackError, match="at least two; given 1"):
        join([one])
