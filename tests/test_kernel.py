"""The compiled kernel at its boundary: it refuses what it cannot read, and equals the plain path where it can."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosmic_tta import Sample, make_method
from cosmic_tta.cliques import maximal_cliques
from cosmic_tta.graph import graph_of, rows_of
from cosmic_tta.kernel import COMPILED, path
from cosmic_tta.ops import as_float32, dots, unit
from cosmic_tta.snapshot import load, save
from cosmic_tta.synthetic import superclass_pack

compiled = pytest.mark.skipif(COMPILED is None, reason="the compiled kernel is not in use")


def floats(*shape: int) -> Any:
    return np.ones(shape, np.float32)


def ints(*shape: int) -> Any:
    return np.ones(shape, np.int64)


def small(*shape: int) -> Any:
    return np.zeros(shape, np.int32)


def bools(*shape: int) -> Any:
    return np.ones(shape, bool)


def panels(nodes: int, width: int) -> Any:
    return np.zeros(((nodes + 15) // 16, width, 16), np.float32)


def triangle() -> Any:
    return graph_of([0b110, 0b101, 0b011])


def places() -> Any:
    return np.arange(4, 12, dtype=np.int32).reshape(4, 2)  # behind four texts


WANTED = [-1.0, 1, 2.0, 6, 1, 10, 1000, 0.2, False, 2.0, 5.0]

# A call that works for every function; each array in it is then spoiled in every way.
CALLS: dict[str, list[Any]] = {
    "dots": [floats(5, 3), floats(2, 3), floats(2, 5)],
    "slot_dots": [floats(4, 2, 3), ints(4), floats(2, 3), floats(2, 4, 2)],
    "attend": [floats(4, 2), floats(4), ints(4), floats(4, 3, 3), 5.5, floats(4, 3), floats(4)],
    "learn": [
        floats(4, 2, 3), floats(4, 2), ints(4, 2), ints(4), floats(4, 3), floats(4, 3, 3), floats(4, 3), floats(3),
        3, 0.5, 7,
    ],
    "fuse": [floats(4), floats(8), floats(4), 1.0, 1.0, 1.0, floats(4), floats(4)],
    "acquaint": [floats(4, 3), floats(4, 2, 3), ints(4), places(), 3, 0, floats(12, 12)],
    "compose": [floats(12, 12), 12, places(), ints(4), floats(4, 3), floats(4), floats(8, 8)],
    "vote": [floats(4, 2), ints(4), 5.0, floats(4)],
    "mix": [floats(4, 2, 3), ints(4), floats(4, 3), floats(4, 3), floats(4, 3)],
    "softmax": [floats(4), 1.0, floats(4)],
    "look": [floats(3, 4), 100.0, 2, floats(3, 4), floats(3, 5), floats(5)],
    "doubt": [floats(4), floats(4)],
    "refresh": [floats(4, 3), bools(4), floats(1, 3, 16), floats(4, 4)],
    "products": [floats(4, 3), 1, floats(3, 4)],
    "collect": [floats(4, 4), 0, bools(4), 3, floats(9), small(9), small(9), 0, -1.0, 1.0, 0.0],
    "degree_threshold": [floats(4), 4, 2.0, 0.0, 1.0],
    "degeneracy_threshold": [floats(2), small(2), small(2) + 1, 4, 2, True],
    "connect": [floats(2), small(2), small(2) + 1, 0.5, np.zeros((3, 1), np.uint64)],
    "connect_above": [floats(4, 4), 0, bools(4), 0.5, np.zeros((4, 1), np.uint64)],
    "second_order": [triangle(), 1, np.zeros((3, 1), np.uint64)],
    "cliques": [triangle(), 10, 1000],
    "build": [floats(4, 4), bools(4), 1, 2.0, 6, -1.0, 1, 10, 1000],
    "lengths": [floats(4, 3), ints(2), ints(2), floats(2)],
    "select": [floats(4), ints(2), ints(2), floats(2), 1, floats(2), bools(4), floats(4), 2.0, 5.0, floats(4)],
    "advance_attending": [
        floats(4, 2, 3), floats(4, 2), ints(4, 2), ints(4), floats(4, 3), floats(4, 3, 3), floats(4, 3), places(),
        floats(13, 13), floats(4), floats(8, 8), floats(4), floats(5, 3), floats(5, 4), floats(4, 2), floats(4, 3),
        floats(8, 4), 2, False, True, 7, 12, 5.5, 100.0, *WANTED,
    ],
    "advance_mean": [
        floats(4, 2, 3), floats(4, 2), ints(4, 2), ints(4), floats(4, 3), floats(4, 3), floats(4, 3), floats(1, 3, 16),
        floats(4, 4), floats(3), floats(4, 2), floats(8, 4), 3, 0.5, 7, 1.0, 1.0, 1.0, *WANTED,
    ],
}  # fmt: skip
WRITTEN = {
    "dots": [2], "slot_dots": [3], "attend": [5, 6], "learn": [0, 1, 2, 3, 5, 6], "vote": [3], "mix": [4],
    "softmax": [2], "look": [3, 5], "refresh": [2, 3], "products": [2], "collect": [4, 5, 6], "connect": [4],
    "connect_above": [4], "second_order": [2], "lengths": [3], "select": [5, 6, 10],
    "fuse": [6, 7], "acquaint": [6], "compose": [6],
    "advance_attending": [0, 1, 2, 3, 5, 7, 8, 10, 13, 14, 15, 16],
    "advance_mean": [0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 11],
}  # fmt: skip


def copies(arguments: list[Any]) -> list[Any]:
    return [value.copy() if isinstance(value, np.ndarray) else value for value in arguments]


@compiled
def test_every_function_is_listed_here() -> None:
    functions = {name for name in dir(COMPILED) if not name.startswith("_")}
    assert functions - set(CALLS) == {"absorb", "compare", "heaviest", "measure"}  # those are in test_tally.py


@compiled
@pytest.mark.parametrize("name", CALLS)
def test_a_sound_call_works(name: str) -> None:
    getattr(COMPILED, name)(*copies(CALLS[name]))


def spoiled(array: Any) -> dict[str, Any]:
    other = {"f": np.float64, "i": np.float32, "u": np.int64, "b": np.uint8}[array.dtype.kind]
    return {
        "type": array.astype(other),
        "dimensions": array[None],
        "strides": np.repeat(array, 2, axis=-1)[..., ::2],
        "length": np.concatenate([array, array]),
        "byte order": array.astype(array.dtype.newbyteorder()) if array.dtype.itemsize > 1 else array[None],
        "no array": [1, 2, 3],
        "nothing": "text",
    }


@compiled
@pytest.mark.parametrize("name", CALLS)
def test_arrays_that_do_not_fit_are_refused(name: str) -> None:
    function, refused = getattr(COMPILED, name), 0
    for place, array in enumerate(CALLS[name]):
        if not isinstance(array, np.ndarray):
            continue
        for way, bad in spoiled(array).items():
            arguments = copies(CALLS[name])
            arguments[place] = bad
            if way == "length" and (name, place) in {
                ("dots", 0), ("dots", 1), ("degree_threshold", 0), ("connect", 4), ("lengths", 0), ("lengths", 1),
                ("select", 1),
            }:  # fmt: skip
                continue  # another length of this one is another problem, not a bad one, or told by the next
            with pytest.raises((TypeError, ValueError)):
                function(*arguments)
            refused += 1
    assert refused >= 6


@compiled
@pytest.mark.parametrize("name", WRITTEN)
def test_what_cannot_be_written_to_is_refused(name: str) -> None:
    for place in WRITTEN[name]:
        arguments = copies(CALLS[name])
        arguments[place].flags.writeable = False
        with pytest.raises(TypeError, match="writable"):
            getattr(COMPILED, name)(*arguments)


@compiled
@pytest.mark.parametrize("name", WRITTEN)
def test_what_is_written_to_may_not_overlap_what_is_read(name: str) -> None:
    arrays = [place for place, value in enumerate(CALLS[name]) if isinstance(value, np.ndarray)]
    for written in WRITTEN[name]:
        for other in arrays:
            if other == written:
                continue
            arguments = copies(CALLS[name])
            one, two = arguments[written], arguments[other]
            room = np.zeros(one.nbytes + two.nbytes + 16, np.uint8)
            place = (one.nbytes - 1) // two.itemsize * two.itemsize  # the last bytes of one are the first of the other
            for index, array, start in ((written, one, 0), (other, two, place)):
                view = room[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
                view[...] = array
                arguments[index] = view
            with pytest.raises(ValueError, match="must not overlap"):
                getattr(COMPILED, name)(*arguments)


@compiled
def test_an_array_between_the_places_of_its_items_is_refused() -> None:
    crooked = np.zeros(4 * 15 + 1, np.uint8)[1:].view(np.float32).reshape(5, 3)
    with pytest.raises(ValueError, match="aligned"):
        COMPILED.dots(crooked, floats(2, 3), floats(2, 5))


@compiled
@pytest.mark.parametrize(
    ("name", "place", "bad"),
    [
        ("slot_dots", 1, np.array([0, 1, 3, 0])),
        ("slot_dots", 1, np.array([0, 1, -1, 0])),
        ("mix", 1, np.array([0, 1, 2**60, 0])),
        ("attend", 2, np.array([0, 1, 3, 0])),
        ("learn", 8, 4),
        ("learn", 8, -1),
        ("learn", 8, 2**63 - 1),
        ("learn", 3, np.array([0, 0, 0, 3])),
        ("learn", 3, np.array([0, 0, 0, -1])),
        ("acquaint", 2, np.array([0, 1, 3, 1])),
        ("acquaint", 2, np.array([0, 1, -1, 1])),
        ("acquaint", 3, places() + 8),
        ("acquaint", 3, places() - 2),
        ("acquaint", 4, 4),
        ("acquaint", 4, -1),
        ("acquaint", 5, 1),
        ("acquaint", 5, -1),
        ("compose", 1, 13),
        ("compose", 1, 3),
        ("compose", 1, 4),
        ("compose", 2, places() + 8),
        ("compose", 2, places() - 2),
        ("compose", 3, np.array([0, 1, 3, 1])),
        ("compose", 6, floats(4, 4)),
        ("compose", 6, floats(3, 3)),
        ("compose", 6, floats(9, 9)),
        ("advance_attending", 17, 0),
        ("advance_attending", 17, 6),
        ("advance_attending", 17, -(2**63)),
        ("advance_attending", 3, np.array([0, 1, 3, 1])),
        ("advance_attending", 3, np.array([0, 1, -1, 1])),
        ("advance_attending", 7, places() + 8),
        ("advance_attending", 7, places() - 2),
        ("advance_attending", 12, floats(0, 3)),
        ("advance_attending", 16, floats(7, 4)),
        ("advance_attending", 21, 13),
        ("advance_attending", 21, 3),
        ("advance_attending", 21, -(2**63)),
        ("advance_attending", 25, 3),
        ("advance_attending", 26, float("nan")),
        ("advance_attending", 27, 0),
        ("advance_attending", 31, 2.0),
        ("advance_attending", 31, float("nan")),
        ("advance_mean", 12, 4),
        ("advance_mean", 12, -1),
        ("advance_mean", 3, np.array([0, 1, 3, 1])),
        ("advance_mean", 11, floats(9, 4)),
        ("advance_mean", 19, -1),
        ("advance_mean", 21, 2**62),
        ("advance_mean", 25, -0.5),
        ("products", 1, 2**63 - 1),
        ("collect", 1, 2**63 - 1),
        ("connect_above", 1, 2**63 - 1),
        ("products", 1, 2),
        ("products", 1, -1),
        ("collect", 1, 1),
        ("collect", 3, 0),
        ("collect", 3, 9),
        ("collect", 7, 10),
        ("collect", 7, -1),
        ("look", 2, 0),
        ("look", 2, 4),
        ("look", 4, None),
        ("degeneracy_threshold", 1, small(2) + 4),
        ("degeneracy_threshold", 1, small(2) - 1),
        ("degeneracy_threshold", 0, np.array([np.nan, 1], np.float32)),
        ("degeneracy_threshold", 3, -1),
        ("connect", 1, small(2) + 3),
        ("connect", 2, small(2) - 1),
        ("connect_above", 1, 2),
        ("second_order", 0, np.array([[2], [0], [0]], np.uint64)),
        ("second_order", 0, np.array([[1], [0], [0]], np.uint64)),
        ("cliques", 0, np.array([[2**63], [0], [0]], np.uint64)),
        ("cliques", 0, np.array([[2], [4], [2]], np.uint64)),
        ("build", 2, 3),
        ("build", 2, -1),
        ("build", 3, float("nan")),
        ("build", 3, 1e300),
        ("build", 4, 0),
        ("lengths", 1, np.array([0, 4])),
        ("lengths", 1, np.array([0, -1])),
        ("lengths", 2, np.array([2, 1])),
        ("select", 1, np.array([0, 4])),
        ("select", 2, np.array([-1, 1])),
        ("select", 2, np.array([2**62, 2**62])),
        ("select", 4, 0),
        ("select", 4, 3),
        ("select", 7, None),
        ("select", 10, None),
    ],
)
def test_contents_that_cannot_be_are_refused(name: str, place: int, bad: Any) -> None:
    arguments = copies(CALLS[name])
    arguments[place] = bad
    with pytest.raises(ValueError, match="cannot be|must be|none of|no graph|not among|add up|too many"):
        getattr(COMPILED, name)(*arguments)


@compiled
@given(st.integers(0, 2**32), st.integers(0, 9), st.integers(0, 40))
def test_no_value_of_a_float_harms(seed: int, nodes: int, width: int) -> None:
    rng = np.random.default_rng(seed)
    features = as_float32(rng.choice([0, 1, -1, np.nan, np.inf, -np.inf, 1e38, 1e-40], (nodes, width)))
    matrix = np.zeros((nodes, nodes), np.float32)
    COMPILED.refresh(features, np.ones(nodes, bool), panels(nodes, width), matrix)
    for control in range(3):
        found = COMPILED.build(matrix, None, control, 2.0, max(1, nodes), -np.inf, 1, 100, 10_000)
        assert set(np.frombuffer(found[0], np.int64).tolist()) == set(range(nodes))


@given(st.integers(0, 10**6), st.integers(0, 40), st.integers(1, 70), st.integers(0, 9))
def test_dots_are_dot_products_and_one_by_one_the_same(seed: int, rows: int, width: int, queries: int) -> None:
    rng = np.random.default_rng(seed)
    left, right = as_float32(rng.standard_normal((rows, width))), as_float32(rng.standard_normal((queries, width)))
    products = dots(left, right)
    np.testing.assert_allclose(products, right @ left.T, atol=1e-4)
    for query, product in zip(right, products, strict=True):
        np.testing.assert_array_equal(dots(left, query[None])[0], product)


@compiled
@given(st.integers(0, 10**6), st.integers(1, 150), st.integers(1, 700))
def test_similarities_brought_up_to_date_have_the_bits_of_new_ones(seed: int, nodes: int, width: int) -> None:
    rng = np.random.default_rng(seed)
    features = unit(as_float32(rng.standard_normal((nodes, width))))
    kept, new = np.zeros((2, nodes, nodes), np.float32)
    room = panels(nodes, width)
    COMPILED.refresh(features, np.ones(nodes, bool), room, kept)
    changed = rng.random(nodes) < rng.choice([0.02, 0.3, 0.9])
    features[changed] = unit(as_float32(rng.standard_normal((int(changed.sum()), width))))
    COMPILED.refresh(features, changed, room, kept)
    COMPILED.refresh(features, np.ones(nodes, bool), panels(nodes, width), new)
    np.testing.assert_array_equal(np.tril(kept), np.tril(new))
    np.testing.assert_allclose(np.tril(new), np.tril(features @ features.T), atol=1e-6)
    start = int(rng.integers(nodes))
    rows = np.zeros((nodes - start, nodes), np.float32)
    COMPILED.products(features, start, rows)
    np.testing.assert_array_equal(np.tril(new)[start:], np.tril(rows, start))


def test_a_long_block_with_full_caches_equals_one_by_one() -> None:
    pack = superclass_pack(seed=3, images=400, superclasses=4, members=3, views=2, dim=40, aux_dim=24)
    samples = [pack.sample(index) for index in range(len(pack))]
    for spec in ("cosmic@official", "cosmic", "cosmic@paper"):
        method = make_method(spec, shots=2, aux_shots=2, rebuild_every=7)
        block, single = method.init(pack.task()), method.init(pack.task())
        together = method.steps(block, samples)
        for sample, answer in zip(samples, together, strict=True):
            alone = method.step(single, sample)
            for name, part in alone.parts.items():
                np.testing.assert_array_equal(answer.parts[name], part, err_msg=f"{spec} {name}")


def test_peeks_at_a_time_do_not_disturb_each_other() -> None:
    pack = superclass_pack(seed=4, images=80, superclasses=20, members=5, views=1, dim=64, aux_dim=48)
    samples = [pack.sample(index) for index in range(len(pack))]
    method = make_method("cosmic@paper", graph="degree", order=1, ratio=0.05)
    state = method.init(pack.task())
    method.steps(state, samples[:40])
    alone = [method.peek(state, sample).scores for sample in samples]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda sample: method.peek(state, sample).scores, samples * 3))
    for number, scores in enumerate(together):
        np.testing.assert_array_equal(scores, alone[number % len(samples)])


@pytest.mark.parametrize("centre", ["mean", "ema", "ema_all"])
def test_a_loaded_state_goes_on_bit_by_bit_where_a_last_bit_decides(centre: str, tmp_path: Path) -> None:
    pack = superclass_pack(seed=6, images=90, superclasses=5, members=5, views=1, dim=40, aux_dim=32)
    samples = [pack.sample(index) for index in range(len(pack))]
    method = make_method("cosmic", graph="degree", aux_degree=5.0, aux_centre=centre, centre=centre)
    state = method.init(pack.task())
    method.steps(state, samples[:60])
    save(tmp_path / "state", method, state)
    again = load(tmp_path / "state", method, pack.task())
    for sample in samples[60:]:
        np.testing.assert_array_equal(method.step(state, sample).scores, method.step(again, sample).scores)
    nodes = [space.nodes.similarity.features for s in (state, again) for space in (s.css, s.afv)]
    np.testing.assert_array_equal(nodes[0], nodes[2])
    np.testing.assert_array_equal(nodes[1], nodes[3])


def test_both_paths_decide_the_same() -> None:
    """The other path, in a process of its own, gives the same answers."""
    program = """
import sys, numpy as np
from cosmic_tta import make_method
from cosmic_tta.synthetic import superclass_pack
pack = superclass_pack(seed=5, images=300, superclasses=6, members=4, views=4, dim=64, aux_dim=48)
for spec in ("cosmic", "cosmic@official", "cosmic@paper", "dmn", "tda", "bayes_means"):
    method = make_method(spec)
    state = method.init(pack.task())
    scores = np.stack([method.step(state, pack.sample(i)).scores for i in range(len(pack))])
    np.save(f"{sys.argv[1]}-{spec}.npy", scores)
"""
    with tempfile.TemporaryDirectory() as folder:
        for switch in ("auto", "off"):
            environment = {**os.environ, "COSMIC_TTA_KERNEL": switch}
            subprocess.run([sys.executable, "-c", program, f"{folder}/{switch}"], check=True, env=environment)
        for spec in ("cosmic", "cosmic@official", "cosmic@paper", "dmn", "tda", "bayes_means"):
            one, other = (np.load(f"{folder}/{switch}-{spec}.npy") for switch in ("auto", "off"))
            close = np.abs(one - other).max(axis=1) < 1e-4
            assert (one.argmax(axis=1) == other.argmax(axis=1)).all(), spec
            assert close.mean() > 0.95, spec  # elsewhere a last bit chose between two graphs


@pytest.mark.parametrize(("switch", "told"), [("off", "plain path"), ("sideways", "must be auto, on or off")])
def test_the_switch(switch: str, told: str) -> None:
    program = "from cosmic_tta.kernel import path; print(path())"
    environment = {**os.environ, "COSMIC_TTA_KERNEL": switch}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert told in done.stdout + done.stderr
    assert path()


@given(st.integers(0, 2**32), st.integers(0, 80), st.floats(0, 1))
def test_cliques_survive_the_way_through_bits(seed: int, nodes: int, density: float) -> None:
    edges = np.triu(np.random.default_rng(seed).random((nodes, nodes)) < density, k=1)
    edges |= edges.T
    graph = graph_of([sum(1 << int(other) for other in np.flatnonzero(row)) for row in edges])
    cliques = maximal_cliques(graph, max_cliques=50)
    for clique in cliques.members():
        assert all(rows_of(graph)[one] >> other & 1 for one in clique for other in clique if one != other)


def test_a_sample_for_the_kernel_is_contiguous() -> None:
    wide = np.eye(8, dtype=np.float32)[::2, ::-1]
    assert Sample(wide).clip.flags.c_contiguous
