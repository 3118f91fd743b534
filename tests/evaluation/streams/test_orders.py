from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from cosmic_tta.core.arrays import softmax, unit
from cosmic_tta.core.errors import InputError
from cosmic_tta.evaluation.streams.registry import make_stream
from cosmic_tta.features.pack_ops import join, subset
from tests.support.small_stream import LABELS, PACK, generate_pack, labels_of


def test_shuffle_is_numpys_permutation_and_limit_cuts_it() -> None:
    np.testing.assert_array_equal(make_stream("shuffle", PACK, 7).order, np.random.default_rng(7).permutation(400))
    np.testing.assert_array_equal(make_stream("given", PACK, 7, limit=3).order, [0, 1, 2])


def switches(name: str) -> int:
    return sum(a != b for a, b in pairwise(labels_of(make_stream(name, PACK))))


def test_correlated_streams_are_correlated() -> None:
    assert switches("class-sequential") == 9
    assert switches("dirichlet") < 0.85 * switches("shuffle")
    assert switches("dirichlet:0.01") < switches("dirichlet") < switches("dirichlet:100")


@pytest.mark.parametrize(("name", "most"), [("few-classes:1", 2), ("few-classes:3", 5), ("few-classes", 7)])
def test_few_classes_are_active_and_they_change(name: str, most: int) -> None:
    labels = labels_of(make_stream(name, PACK))
    windows = [set(labels[start : start + 20]) for start in range(0, 400, 20)]
    assert np.mean([len(window) for window in windows]) <= most
    assert len({frozenset(window) for window in windows}) > 5
    returns = [np.diff(np.flatnonzero(np.array(labels) == k)).max() for k in range(10)]
    assert max(returns) > 40  # a class that left comes back


def test_at_most_half_of_the_classes_are_active() -> None:
    labels = labels_of(make_stream("few-classes:1000", generate_pack(np.repeat([0, 1], 200))))
    assert sum(a != b for a, b in pairwise(labels)) < 40  # one of two at a time; shuffled there would be 200
    assert sorted(labels) == [0] * 200 + [1] * 200


def test_a_dominant_class_is_half_of_the_stream() -> None:
    labels = labels_of(make_stream("dominant", PACK))
    assert len(labels) == 80
    assert max(np.bincount(labels)) == 40


def test_long_tailed_sizes_fall_geometrically() -> None:
    for name, rarest in (("long-tailed", 0.03), ("long-tailed:0.5", 0.5)):
        sizes = sorted(np.bincount(labels_of(make_stream(name, PACK))).tolist(), reverse=True)
        assert sizes == [max(1, round(40 * rarest ** (rank / 9))) for rank in range(10)]


@pytest.mark.parametrize(("name", "occurring"), [("absent", 2), ("absent:50", 5), ("absent:1", 2), ("absent:100", 10)])
def test_only_a_share_of_the_classes_occurs_and_the_task_keeps_all(name: str, occurring: int) -> None:
    stream = make_stream(name, PACK, 4)
    labels = np.array(labels_of(stream))
    assert len(np.unique(labels)) == occurring
    assert stream.pack.class_names == PACK.class_names
    assert sorted(stream.order.tolist()) == np.flatnonzero(np.isin(LABELS, labels)).tolist()
    assert stream.counted.all()
    assert stream.note == f"{occurring} of 10 classes occur"


def test_a_pack_whose_images_are_of_one_class_keeps_it() -> None:
    assert set(labels_of(make_stream("absent", generate_pack(np.zeros(30, np.int64))))) == {0}


def test_joined_packs_are_the_domains_of_a_switching_stream() -> None:
    half = [subset(PACK, slice(0, 150), "clean"), subset(PACK, slice(150, 400), "shifted")]
    stream = make_stream("switching", join(half), 1)
    assert stream.domains is not None
    assert stream.domains.tolist() == [0] * 150 + [1] * 250
    np.testing.assert_array_equal(stream.pack.clip, PACK.clip)  # nothing is moved


@pytest.mark.parametrize("name", ["mixed", "switching"])
def test_a_second_domain_is_made_of_half_of_the_images(name: str) -> None:
    stream = make_stream(name, PACK, 2)
    assert stream.pack.domains is not None
    assert stream.domains is not None
    np.testing.assert_array_equal(stream.domains, stream.pack.domains[stream.order])
    moved = stream.pack.domains == 1
    assert moved.sum() == 200
    assert 0.3 < np.corrcoef(moved, LABELS)[0, 1] + 0.4 < 0.5  # domains do not follow classes
    assert stream.pack.aux is not None
    assert PACK.aux is not None
    for before, after in ((PACK.clip, stream.pack.clip), (PACK.aux, stream.pack.aux)):
        np.testing.assert_array_equal(before[~moved], after[~moved])
        np.testing.assert_allclose(np.linalg.norm(after, axis=-1), 1, atol=1e-5)
        # x' is (x + o)/|x + o|: so o lies in the plane of x and x', the same for all, and has the length 0.5.
        one = unit(before[moved][:, 0] if before.ndim == 3 else before[moved])
        two = after[moved][:, 0] if after.ndim == 3 else after[moved]
        cosine = (one * two).sum(axis=1)
        assert cosine.min() > np.sqrt(1 - 0.5**2) - 1e-4
        assert cosine.max() < 1
    farther = make_stream(f"{name}:0.9", PACK, 2).pack
    assert (farther.clip[moved] * PACK.clip[moved]).sum() < (stream.pack.clip[moved] * PACK.clip[moved]).sum()


def test_domains_switch_once_or_mix() -> None:
    for name, least, most in (("switching", 1, 1), ("mixed", 150, 250)):
        domains = make_stream(name, PACK).domains
        assert domains is not None
        assert least <= np.abs(np.diff(domains)).sum() <= most


def test_a_quarter_of_the_classes_is_removed_from_the_task() -> None:
    stream = make_stream("open-set", PACK)
    assert len(stream.pack.class_names) == 8  # a quarter of ten, rounded to the even number
    assert stream.pack.task().classes == 8
    assert stream.pack.labels is None
    np.testing.assert_array_equal(stream.counted, stream.known)
    assert (~stream.known).sum() == 80
    assert stream.note == "2 of 10 classes unknown"
    gone = set(PACK.class_names) - set(stream.pack.class_names)
    assert {PACK.class_names[LABELS[image]] for image in stream.order[~stream.known]} == gone
    kept = [PACK.class_names.index(name) for name in stream.pack.class_names]
    np.testing.assert_array_equal(stream.pack.text, PACK.text[kept])
    assert len(make_stream("open-set:90", PACK).pack.class_names) == 1
    assert len(make_stream("open-set:1", PACK).pack.class_names) == 9  # at least one goes
    with pytest.raises(InputError, match="'open-set' removes classes from the task, and all images"):
        make_stream("open-set", generate_pack(np.zeros(30, np.int64)))


def test_repeated_images_come_in_a_row() -> None:
    order = make_stream("repeated:4", PACK).order
    runs = 1 + np.count_nonzero(np.diff(order))
    assert runs == 400  # each image has one run
    times = np.bincount(order)
    assert (times.min(), times.max()) == (1, 4)
    assert make_stream("repeated:1", PACK, 9).order.tolist() == np.random.default_rng(9).permutation(400).tolist()


@pytest.mark.parametrize(("scale", "note"), [(60.0, "errors of zero-shot above 0.9"), (2.0, "as none is above 0.9")])
def test_poison_is_what_zero_shot_gets_wrong_with_confidence(scale: float, note: str) -> None:
    pack = generate_pack(scale=scale)
    stream = make_stream("poisoned", pack, 4)
    assert note in stream.note
    assert (~stream.counted).sum() == 40
    assert stream.known.all()
    clean = np.random.default_rng(4).permutation(400)
    np.testing.assert_array_equal(stream.order[stream.counted], clean[stream.counted])
    scores = softmax(np.float32(scale) * (pack.clip[:, 0] @ unit(pack.text).T))
    wrong = scores.argmax(axis=1) != LABELS
    poison = stream.order[~stream.counted]
    assert wrong[poison].all()
    if scale == 60:
        assert scores.max(axis=1)[poison].min() > 0.9
    else:
        surest = np.sort(scores.max(axis=1)[wrong])[-40:]
        assert scores.max(axis=1)[poison].min() >= surest[0]
    assert (~make_stream("poisoned:20", pack).counted).sum() == 80


def test_where_zero_shot_is_always_right_there_is_no_poison() -> None:
    pack = replace(PACK, clip=PACK.text[LABELS][:, None])
    stream = make_stream("poisoned", pack)
    assert stream.counted.all()
    assert stream.note == "zero-shot is wrong nowhere: nothing to poison with"
