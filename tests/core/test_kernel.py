"""The compiled kernel at its boundary: it refuses invalid arrays, and equals the plain path on valid ones."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosmic_tta import Sample
from cosmic_tta.core.arrays import as_float32, dots
from cosmic_tta.core.kernel import COMPILED
from cosmic_tta.core.kernel import path as path_in_use
from cosmic_tta.methods.cosmic.graph.class_graph import graph_of
from tests.support.paths import ROOT

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


def gram_rows() -> Any:
    return np.arange(4, 12, dtype=np.int32).reshape(4, 2)  # behind four texts


def config(**changes: Any) -> Any:
    """The configuration of a fused step; None on the plain path."""
    query = {
        "control": 1, "value": 2.0, "pairs": 6, "common": 1, "max_cliques": 10, "max_visits": 1000, "ratio": 0.2,
        "round_up": False, "factor": 2.0, "sharpness": 5.0,
    }  # fmt: skip
    confident = changes.pop("confident", 0.5)
    css, afv = tuple((query | changes).values()), tuple(query.values())
    if COMPILED is None:
        return None
    for graphs in ((afv, css), (css, afv)):  # each of the two is checked
        made = COMPILED.fused_step_config(confident, False, True, 5.5, (1.0, 1.0, 1.0), *graphs)
    return made


# A valid call of every function; each array in it is then corrupted in every way.
CALLS: dict[str, list[Any]] = {
    "dots": [floats(5, 3), floats(2, 3), floats(2, 5)],
    "slot_dots": [floats(4, 2, 3), ints(4), floats(2, 3), floats(2, 4, 2)],
    "attend": [floats(4, 2), floats(4), ints(4), floats(4, 3, 3), 5.5, floats(4, 3), floats(4)],
    "cache_insert": [
        floats(4, 2, 3), floats(4, 2), ints(4, 2), ints(4), floats(4, 3), floats(4, 3, 3), floats(4, 3), floats(3),
        3, 0.5, 7,
    ],
    "fuse_branches": [floats(4), floats(8), floats(4), 1.0, 1.0, 1.0, floats(4), floats(4)],
    "gram_add_row": [floats(4, 3), floats(4, 2, 3), ints(4), gram_rows(), 3, 0, floats(12, 12)],
    "gram_fill_similarity": [floats(12, 12), 12, gram_rows(), ints(4), floats(4, 3), floats(4), floats(8, 8)],
    "slot_votes": [floats(4, 2), ints(4), 5.0, floats(4)],
    "mix_centres": [floats(4, 2, 3), ints(4), floats(4, 3), floats(4, 3), floats(4, 3)],
    "softmax": [floats(4), 1.0, floats(4)],
    "select_confident_views": [floats(3, 4), 100.0, 2, floats(3, 4), floats(3, 5), floats(5)],
    "joint_pseudo_label": [floats(4), floats(4)],
    "update_similarity": [floats(4, 3), bools(4), floats(1, 3, 16), floats(4, 4)],
    "similarity_rows": [floats(4, 3), 1, floats(3, 4)],
    "collect_pairs": [floats(4, 4), 0, bools(4), 3, floats(9), small(9), small(9), 0, -1.0, 1.0, 0.0],
    "degree_threshold": [floats(4), 4, 2.0, 0.0, 1.0],
    "degeneracy_threshold": [floats(2), small(2), small(2) + 1, 4, 2, True],
    "connect_pairs": [floats(2), small(2), small(2) + 1, 0.5, np.zeros((3, 1), np.uint64)],
    "connect_above": [floats(4, 4), 0, bools(4), 0.5, np.zeros((4, 1), np.uint64)],
    "second_order": [triangle(), 1, np.zeros((3, 1), np.uint64)],
    "maximal_cliques": [triangle(), 10, 1000],
    "graph_cliques": [floats(4, 4), bools(4), 1, 2.0, 6, 1, 10, 1000, -1.0],
    "clique_lengths": [floats(4, 3), ints(2), ints(2), floats(2)],
    "nearest_hyperclasses": [
        floats(4), ints(2), ints(2), floats(2), 1, floats(2), bools(4), floats(4), 2.0, 5.0, floats(4),
    ],
    "gaussian_score": [
        floats(5), floats(5), floats(5), floats(4, 5), floats(5), floats(4), floats(4), 7, 3, 10.0, 5.0, floats(2, 4),
        floats(2),
    ],
    "gaussian_relabel": [
        floats(7, 5), floats(7, 4), floats(5), floats(2, 4), floats(2, 4), floats(4, 5), floats(4), 0.5, 0.1, 10.0, 3,
        floats(5), floats(5), floats(4, 5), floats(5), floats(4), floats(4),
    ],
    "fused_css_step": [
        config(),
        (floats(4, 2, 3), floats(4, 2), ints(4, 2), ints(4)),
        (floats(4, 3), floats(4, 3, 3)),
        (floats(4, 3), gram_rows(), floats(13, 13), floats(4), floats(8, 8)),
        (floats(5, 3), floats(4)),
        (floats(5, 4), floats(4, 2), floats(4, 3), floats(8, 4)),
        7, 12, 100.0, -1.0,
    ],
    "fused_afv_step": [
        config(),
        (floats(4, 2, 3), floats(4, 2), ints(4, 2), ints(4)),
        (floats(4, 3), floats(4, 3), floats(4, 3), floats(1, 3, 16), floats(4, 4)),
        floats(3),
        (floats(4, 2), floats(8, 4)),
        3, 0.5, 7, -1.0,
    ],
}  # fmt: skip
WRITTEN: dict[str, list[Any]] = {
    "dots": [2], "slot_dots": [3], "attend": [5, 6], "cache_insert": [0, 1, 2, 3, 5, 6], "slot_votes": [3],
    "mix_centres": [4], "softmax": [2], "select_confident_views": [3, 5], "update_similarity": [2, 3],
    "similarity_rows": [2], "collect_pairs": [4, 5, 6], "connect_pairs": [4], "connect_above": [4],
    "second_order": [2], "clique_lengths": [3], "nearest_hyperclasses": [5, 6, 10], "fuse_branches": [6, 7],
    "gram_add_row": [6], "gram_fill_similarity": [6], "gaussian_score": [11, 12],
    "gaussian_relabel": [1, 13, 14, 15, 16],
    "fused_css_step": [
        (1, 0), (1, 1), (1, 2), (1, 3), (2, 1), (3, 1), (3, 2), (3, 4), (5, 0), (5, 1), (5, 2), (5, 3),
    ],
    "fused_afv_step": [(1, 0), (1, 1), (1, 2), (1, 3), (2, 0), (2, 1), (2, 2), (2, 3), (2, 4), (4, 0), (4, 1)],
}  # fmt: skip


ArgumentPath = int | tuple[int, int]  # of an argument: its index, or the index of its tuple and its index in there


def copies(arguments: Any) -> list[Any]:
    """The arguments with copies of all arrays; a tuple of arguments becomes a list, see `call`."""
    return [
        value.copy() if isinstance(value, np.ndarray) else copies(value) if isinstance(value, (tuple, list)) else value
        for value in arguments
    ]


def array_paths(arguments: list[Any]) -> list[ArgumentPath]:
    paths: list[ArgumentPath] = []
    for index, value in enumerate(arguments):
        if isinstance(value, tuple):
            paths += [(index, inner) for inner, item in enumerate(value) if isinstance(item, np.ndarray)]
        elif isinstance(value, np.ndarray):
            paths.append(index)
    return paths


def argument(arguments: list[Any], path: ArgumentPath) -> Any:
    return arguments[path] if isinstance(path, int) else arguments[path[0]][path[1]]


def put(arguments: list[Any], path: ArgumentPath, value: Any) -> None:
    if isinstance(path, int):
        arguments[path] = value
    else:
        arguments[path[0]][path[1]] = value


def call(name: str, arguments: list[Any]) -> Any:
    inside = name.startswith("fused")
    return getattr(COMPILED, name)(*(tuple(v) if inside and isinstance(v, list) else v for v in arguments))


@compiled
def test_every_function_is_listed_here() -> None:
    functions = {name for name in dir(COMPILED) if not name.startswith("_")}
    assert functions - set(CALLS) == {"fused_step_config"}


@compiled
@pytest.mark.parametrize("name", CALLS)
def test_a_valid_call_works(name: str) -> None:
    call(name, copies(CALLS[name]))


def corrupted(array: Any) -> dict[str, Any]:
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
    refused = 0
    for path in array_paths(CALLS[name]):
        for way, bad in corrupted(argument(CALLS[name], path)).items():
            arguments = copies(CALLS[name])
            put(arguments, path, bad)
            if way == "length" and (name, path) in {
                ("dots", 0), ("dots", 1), ("degree_threshold", 0), ("connect_pairs", 4), ("clique_lengths", 0),
                ("clique_lengths", 1), ("nearest_hyperclasses", 1),
            }:  # fmt: skip
                continue  # another length of this array is a valid problem, or found by another check
            if isinstance(bad, list):
                put(arguments, path, tuple(bad))
            with pytest.raises((TypeError, ValueError)):
                call(name, arguments)
            refused += 1
    assert refused >= 6


@compiled
@pytest.mark.parametrize("name", WRITTEN)
def test_a_read_only_array_is_refused_where_it_is_written_to(name: str) -> None:
    for path in WRITTEN[name]:
        arguments = copies(CALLS[name])
        argument(arguments, path).flags.writeable = False
        with pytest.raises(TypeError, match="writable"):
            call(name, arguments)


@compiled
@pytest.mark.parametrize("name", WRITTEN)
def test_an_array_that_is_written_to_may_not_overlap_another(name: str) -> None:
    for written in WRITTEN[name]:
        for other in array_paths(CALLS[name]):
            if other == written:
                continue
            arguments = copies(CALLS[name])
            one, two = argument(arguments, written), argument(arguments, other)
            room = np.zeros(one.nbytes + two.nbytes + 16, np.uint8)
            begin = (one.nbytes - 1) // two.itemsize * two.itemsize  # the last bytes of one are the first of the other
            for path, array, start in ((written, one, 0), (other, two, begin)):
                view = room[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
                view[...] = array
                put(arguments, path, view)
            with pytest.raises(ValueError, match="must not overlap"):
                call(name, arguments)


@compiled
def test_an_array_that_is_not_aligned_is_refused() -> None:
    crooked = np.zeros(4 * 15 + 1, np.uint8)[1:].view(np.float32).reshape(5, 3)
    with pytest.raises(ValueError, match="aligned"):
        COMPILED.dots(crooked, floats(2, 3), floats(2, 5))


@compiled
@pytest.mark.parametrize(
    ("name", "path", "bad"),
    [
        ("slot_dots", 1, np.array([0, 1, 3, 0])),
        ("slot_dots", 1, np.array([0, 1, -1, 0])),
        ("mix_centres", 1, np.array([0, 1, 2**60, 0])),
        ("attend", 2, np.array([0, 1, 3, 0])),
        ("cache_insert", 8, 4),
        ("cache_insert", 8, -1),
        ("cache_insert", 8, 2**63 - 1),
        ("cache_insert", 3, np.array([0, 0, 0, 3])),
        ("cache_insert", 3, np.array([0, 0, 0, -1])),
        ("gram_add_row", 2, np.array([0, 1, 3, 1])),
        ("gram_add_row", 2, np.array([0, 1, -1, 1])),
        ("gram_add_row", 3, gram_rows() + 8),
        ("gram_add_row", 3, gram_rows() - 2),
        ("gram_add_row", 4, 4),
        ("gram_add_row", 4, -1),
        ("gram_add_row", 5, 1),
        ("gram_add_row", 5, -1),
        ("gram_fill_similarity", 1, 13),
        ("gram_fill_similarity", 1, 3),
        ("gram_fill_similarity", 1, 4),
        ("gram_fill_similarity", 2, gram_rows() + 8),
        ("gram_fill_similarity", 2, gram_rows() - 2),
        ("gram_fill_similarity", 3, np.array([0, 1, 3, 1])),
        ("gram_fill_similarity", 6, floats(4, 4)),
        ("gram_fill_similarity", 6, floats(3, 3)),
        ("gram_fill_similarity", 6, floats(9, 9)),
        ("fused_css_step", (1, 3), np.array([0, 1, 3, 1])),
        ("fused_css_step", (1, 3), np.array([0, 1, -1, 1])),
        ("fused_css_step", (3, 1), gram_rows() + 8),
        ("fused_css_step", (3, 1), gram_rows() - 2),
        ("fused_css_step", (4, 0), floats(0, 3)),
        ("fused_css_step", (5, 3), floats(7, 4)),
        ("fused_css_step", 7, 13),
        ("fused_css_step", 7, 3),
        ("fused_css_step", 7, -(2**63)),
        ("fused_afv_step", 5, 4),
        ("fused_afv_step", 5, -1),
        ("fused_afv_step", (1, 3), np.array([0, 1, 3, 1])),
        ("fused_afv_step", (4, 1), floats(9, 4)),
        ("gaussian_score", 8, 0),
        ("gaussian_score", 8, -1),
        ("gaussian_score", 8, 6),
        ("gaussian_score", 8, 2**63 - 1),
        ("gaussian_score", 8, 5),  # one space, but room for two
        ("gaussian_score", 3, floats(0, 5)),
        ("gaussian_score", 3, floats(4, 0)),
        ("gaussian_relabel", 10, 0),
        ("gaussian_relabel", 10, -(2**63)),
        ("gaussian_relabel", 10, 6),
        ("gaussian_relabel", 10, 5),
        ("gaussian_relabel", 13, floats(0, 5)),
        ("gaussian_relabel", 13, floats(4, 0)),
        ("similarity_rows", 1, 2**63 - 1),
        ("collect_pairs", 1, 2**63 - 1),
        ("connect_above", 1, 2**63 - 1),
        ("similarity_rows", 1, 2),
        ("similarity_rows", 1, -1),
        ("collect_pairs", 1, 1),
        ("collect_pairs", 3, 0),
        ("collect_pairs", 3, 9),
        ("collect_pairs", 7, 10),
        ("collect_pairs", 7, -1),
        ("select_confident_views", 2, 0),
        ("select_confident_views", 2, 4),
        ("select_confident_views", 4, None),
        ("degeneracy_threshold", 1, small(2) + 4),
        ("degeneracy_threshold", 1, small(2) - 1),
        ("degeneracy_threshold", 0, np.array([np.nan, 1], np.float32)),
        ("degeneracy_threshold", 3, -1),
        ("connect_pairs", 1, small(2) + 3),
        ("connect_pairs", 2, small(2) - 1),
        ("connect_above", 1, 2),
        ("second_order", 0, np.array([[2], [0], [0]], np.uint64)),
        ("second_order", 0, np.array([[1], [0], [0]], np.uint64)),
        ("maximal_cliques", 0, np.array([[2**63], [0], [0]], np.uint64)),
        ("maximal_cliques", 0, np.array([[2], [4], [2]], np.uint64)),
        ("graph_cliques", 2, 3),
        ("graph_cliques", 2, -1),
        ("graph_cliques", 3, float("nan")),
        ("graph_cliques", 3, 1e300),
        ("graph_cliques", 4, 0),
        ("graph_cliques", 4, 2**62),
        ("clique_lengths", 1, np.array([0, 4])),
        ("clique_lengths", 1, np.array([0, -1])),
        ("clique_lengths", 2, np.array([2, 1])),
        ("nearest_hyperclasses", 1, np.array([0, 4])),
        ("nearest_hyperclasses", 2, np.array([-1, 1])),
        ("nearest_hyperclasses", 2, np.array([2**62, 2**62])),
        ("nearest_hyperclasses", 4, 0),
        ("nearest_hyperclasses", 4, 3),
        ("nearest_hyperclasses", 7, None),
        ("nearest_hyperclasses", 10, None),
    ],
)
def test_impossible_contents_are_refused(name: str, path: ArgumentPath, bad: Any) -> None:
    arguments = copies(CALLS[name])
    put(arguments, path, bad)
    with pytest.raises(ValueError, match="must be|must have|not a graph|too many"):
        call(name, arguments)


@compiled
@pytest.mark.parametrize(
    ("name", "bad"),
    [
        ("confident", -0.1), ("confident", 1.5), ("confident", float("nan")), ("control", 3), ("control", -1),
        ("value", float("nan")), ("value", 1e300), ("pairs", 0), ("pairs", -(2**63)), ("pairs", 2**62),
        ("ratio", 2.0), ("ratio", -0.5), ("ratio", float("nan")),
    ],
)  # fmt: skip
def test_an_impossible_configuration_is_refused(name: str, bad: Any) -> None:
    with pytest.raises(ValueError, match="must be"):
        config(**{name: bad})


@compiled
@pytest.mark.parametrize("name", ["fused_css_step", "fused_afv_step"])
def test_a_step_without_its_configuration_is_refused(name: str) -> None:
    for bad in (None, 7, np.ones(4, np.float32), (1.0, 2.0)):
        arguments = copies(CALLS[name])
        arguments[0] = bad
        with pytest.raises((TypeError, ValueError)):
            call(name, arguments)


@compiled
@given(st.integers(0, 2**32), st.integers(0, 9), st.integers(0, 40))
def test_no_float_value_crashes_the_kernel(seed: int, nodes: int, width: int) -> None:
    rng = np.random.default_rng(seed)
    features = as_float32(rng.choice([0, 1, -1, np.nan, np.inf, -np.inf, 1e38, 1e-40], (nodes, width)))
    matrix = np.zeros((nodes, nodes), np.float32)
    COMPILED.update_similarity(features, np.ones(nodes, bool), panels(nodes, width), matrix)
    for control in range(3):
        found = COMPILED.graph_cliques(matrix, None, control, 2.0, max(1, nodes), 1, 100, 10_000, -np.inf)
        assert set(np.frombuffer(found[0], np.int64).tolist()) == set(range(nodes))


@given(st.integers(0, 10**6), st.integers(0, 40), st.integers(1, 70), st.integers(0, 9))
def test_dots_are_dot_products_and_one_by_one_the_same(seed: int, rows: int, width: int, queries: int) -> None:
    rng = np.random.default_rng(seed)
    left, right = as_float32(rng.standard_normal((rows, width))), as_float32(rng.standard_normal((queries, width)))
    products = dots(left, right)
    np.testing.assert_allclose(products, right @ left.T, atol=1e-4)
    for query, product in zip(right, products, strict=True):
        np.testing.assert_array_equal(dots(left, query[None])[0], product)


def test_both_paths_decide_the_same() -> None:
    """The plain path, in a process of its own, gives the same answers."""
    program = """
import sys, numpy as np
from cosmic_tta import make_method
from cosmic_tta.features.synthetic import superclass_pack
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
            assert close.mean() > 0.95, spec  # elsewhere the last bit decided between two graphs


@pytest.mark.parametrize(("switch", "message"), [("off", "plain path"), ("sideways", "must be auto, on or off")])
def test_the_switch(switch: str, message: str) -> None:
    program = "from cosmic_tta.core.kernel import path; print(path())"
    environment = {**os.environ, "COSMIC_TTA_KERNEL": switch}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert message in done.stdout + done.stderr
    assert path_in_use()


def test_a_sample_for_the_kernel_is_contiguous() -> None:
    wide = np.eye(8, dtype=np.float32)[::2, ::-1]
    assert Sample(wide).clip.flags.c_contiguous


def calls_of_the_kernel() -> Iterator[tuple[str, str, str, str]]:
    """Yield each `COMPILED.name` in a function: that function, the name, the function's docstring and the module's."""
    for path in sorted((ROOT / "src" / "cosmic_tta").rglob("*.py")):
        module = ast.parse(path.read_text(encoding="utf-8"))
        for function in ast.walk(module):
            if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
                docs = ast.get_docstring(function) or "", ast.get_docstring(module) or ""
                for node in ast.walk(function):
                    if isinstance(node, ast.Attribute) and getattr(node.value, "id", "") == "COMPILED":
                        yield function.name, node.attr, *docs


@pytest.mark.pathless
def test_a_function_with_a_compiled_twin_names_the_file_of_the_twin() -> None:
    listed = (ROOT / "kernel" / "capi" / "module.c").read_text(encoding="utf-8")
    file, files = "", {}
    for comment, name in re.findall(r'^    (?:/\* (\S+\.c) \*/|{"(\w+)")', listed, flags=re.MULTILINE):
        file = comment or file
        if name:
            files[name] = f"kernel/{file}"
    found = list(calls_of_the_kernel())
    assert {name for _, name, _, _ in found} == set(files)
    for function, name, own, module in found:
        named_above = files[name] in module and re.search(rf"`(?:\w+\.)?{function}`", module)
        assert files[name] in own or named_above, f"{function} calls {name} and does not name {files[name]}"
