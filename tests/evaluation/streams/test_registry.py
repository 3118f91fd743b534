from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cosmic_tta.core.errors import InputError, ParameterError, UnknownNameError
from cosmic_tta.evaluation.streams.registry import STREAMS, check_stream, find_kind, is_correlated, make_stream
from cosmic_tta.evaluation.streams.stream import UNKNOWN
from tests.support.small_stream import LABELS, PACK, generate_pack, labels_of

ONCE = ("given", "shuffle", "class-sequential", "dirichlet", "few-classes", "mixed", "switching", "open-set")
WITHOUT_LABELS = ("given", "shuffle", "mixed", "switching", "repeated")


@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_is_seeded_and_fits_its_pack(name: str) -> None:
    stream, again, other = (make_stream(name, PACK, seed) for seed in (0, 0, 1))
    assert set(stream.order.tolist()) <= set(range(400))
    np.testing.assert_array_equal(stream.order, again.order)
    np.testing.assert_array_equal(stream.pack.clip, again.pack.clip)
    assert name == "given" or stream.order.tolist() != other.order.tolist()
    assert len(stream) == len(stream.counted) == len(stream.known) == len(labels_of(stream))
    assert not (stream.counted & ~stream.known).any()
    names = stream.pack.class_names
    for label, image, known in zip(labels_of(stream), stream.order, stream.known, strict=True):
        assert (label != UNKNOWN) == known
        assert not known or names[label] == PACK.class_names[LABELS[image]]


@pytest.mark.parametrize("name", STREAMS)
def test_most_streams_show_every_image_once(name: str) -> None:
    order = make_stream(name, PACK).order.tolist()
    if name in ONCE:
        assert sorted(order) == list(range(400))
    elif name in ("long-tailed", "dominant", "absent"):
        assert len(set(order)) == len(order) < 400
    else:
        assert len(set(order)) < len(order)


@pytest.mark.parametrize("name", STREAMS)
def test_a_limit_keeps_the_first_steps(name: str) -> None:
    whole, cut = make_stream(name, PACK, 3), make_stream(name, PACK, 3, limit=17)
    for part in ("order", "counted", "known", "labels"):
        np.testing.assert_array_equal(getattr(cut, part), getattr(whole, part)[:17])
    assert len(make_stream(name, PACK, 3, limit=10**6)) == len(whole)


@pytest.mark.parametrize("name", STREAMS)
def test_kinds_that_need_no_labels_run_without_them_and_others_refuse(name: str) -> None:
    unlabelled = replace(PACK, labels=None)
    if name in WITHOUT_LABELS:
        stream = make_stream(name, unlabelled, 5)
        assert stream.labels is None
        assert stream.known.all()
        np.testing.assert_array_equal(stream.order, make_stream(name, PACK, 5).order)
    else:
        with pytest.raises(
            InputError, match=f"'{name}' needs labels, and pack 'generated' has none; these need none: giv"
        ):
            make_stream(name, unlabelled)


@pytest.mark.parametrize(
    ("name", "kind", "said"),
    [
        ("shufle", UnknownNameError, "unknown order 'shufle': did you mean 'shuffle'"),
        ("dirichle:0.1", UnknownNameError, "did you mean 'dirichlet'"),
        ("shuffle:3", ParameterError, "the order 'shuffle' takes no number after a colon; given 'shuffle:3'"),
        ("dirichlet:", ParameterError, "takes the concentration, a number from 0.001 to 1000, after the colon"),
        ("dirichlet:-1", ParameterError, "given 'dirichlet:-1'. Without one it is 0.1"),
        ("dirichlet:nan", ParameterError, "given 'dirichlet:nan'"),
        ("few-classes:2.5", ParameterError, "the number of active classes, a whole number from 1 to"),
        ("poisoned:100", ParameterError, "the poisoned steps in percent, a number from 0 to 99"),
        ("absent:101", ParameterError, "the occurring classes in percent, a number from 0.001 to 100"),
        ("switching:1", ParameterError, "the length of the offset that makes a second domain"),
    ],
)
def test_wrong_names_and_numbers(name: str, kind: type[Exception], said: str) -> None:
    for refuse in (lambda: find_kind(name), lambda: check_stream(name, PACK), lambda: make_stream(name, PACK)):
        with pytest.raises(kind, match=said):
            refuse()


def test_a_bad_limit_seed_or_offset_is_refused() -> None:
    with pytest.raises(InputError, match="limit must be at least 1; given 0"):
        make_stream("given", PACK, limit=0)
    with pytest.raises(InputError, match="seed must be 0 or more; given -1"):
        make_stream("given", PACK, -1)
    with pytest.raises(ParameterError, match="has domains of its own"):
        make_stream("mixed:0.3", replace(PACK, domains=np.repeat([0, 1], 200)))


@pytest.mark.parametrize("name", STREAMS)
def test_every_kind_runs_on_two_images(name: str) -> None:
    pack = replace(generate_pack(np.array([3, 7])), aux=None)
    assert len(make_stream(name, pack)) >= 2


def test_correlated_kinds_are_known_with_and_without_a_number() -> None:
    assert {name for name in STREAMS if is_correlated(name)} == {"class-sequential", "dirichlet", "few-classes"}
    assert is_correlated("few-classes:2")
    assert find_kind("few-classes:2") == (STREAMS["few-classes"], 2.0)
    assert find_kind("few-classes") == (STREAMS["few-classes"], 5.0)
