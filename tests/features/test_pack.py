from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cosmic_tta.core.errors import PackError, UnknownNameError
from cosmic_tta.features.pack import FeaturePack, check_pack


@pytest.fixture
def folder(tmp_path: Path, pack: FeaturePack) -> Path:
    pack.write(tmp_path / "pack")
    return tmp_path / "pack"


def test_a_pack_comes_back_as_it_was(folder: Path, pack: FeaturePack) -> None:
    again = FeaturePack.open(folder)
    for name in ("clip", "text", "aux", "labels"):
        np.testing.assert_array_equal(getattr(again, name), getattr(pack, name))
        assert isinstance(getattr(again, name), np.memmap)
    for name in ("name", "class_names", "logit_scale", "clip_model", "aux_model", "prompts", "source", "licence"):
        assert getattr(again, name) == getattr(pack, name)
    assert not list(check_pack(folder))
    assert again.task().aux_dim == 24
    assert "120 images, 20 classes, 4 views 32 wide, auxiliary features 24 wide, labels" in again.summary


def test_a_pack_without_aux_and_labels(tmp_path: Path, pack: FeaturePack) -> None:
    replace(pack, aux=None, labels=None, clip=pack.clip.astype(np.float16)).write(tmp_path / "bare")
    bare = FeaturePack.open(tmp_path / "bare")
    assert bare.aux is None
    assert bare.sample(0).aux is None
    assert bare.sample(0).clip.dtype == np.float32
    assert not list(check_pack(tmp_path / "bare"))
    with pytest.raises(PackError, match="needs labels"):
        bare.support()


def test_a_pack_is_never_written_over(folder: Path, pack: FeaturePack) -> None:
    with pytest.raises(PackError, match="there already"):
        pack.write(folder)


def test_a_pack_that_cannot_be_written_leaves_nothing(
    tmp_path: Path, pack: FeaturePack, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = np.save

    def full(file: Path, array: Any) -> None:
        if Path(file).name == "aux.npy":
            raise OSError(28, "No space left on device")
        real(file, array)

    monkeypatch.setattr(np, "save", full)
    with pytest.raises(OSError, match="No space"):
        pack.write(tmp_path / "pack")
    assert not list(tmp_path.iterdir())


def test_a_pack_of_bad_rows_is_not_written(tmp_path: Path, pack: FeaturePack) -> None:
    with pytest.raises(PackError, match="was not written: clip.npy has a row not of length 1"):
        replace(pack, clip=2 * pack.clip).write(tmp_path / "pack")
    assert not list(tmp_path.iterdir())


def test_lists_are_taken_and_what_is_no_array_is_refused() -> None:
    eye = np.eye(2, dtype=np.float32)
    labels: Any = [0, 1]
    made = FeaturePack("lists", ("a", "b"), eye[:, None], eye, labels=labels)
    assert len(made) == 2
    assert "2 images, 2 classes, 1 view 2 wide, no auxiliary features, labels" in made.summary

    class Tensor:
        def __array__(self, *_: Any, **__: Any) -> Any:
            raise RuntimeError("requires grad")

    with pytest.raises(PackError, match=r"clip must be a NumPy array; given Tensor .*detach"):
        replace(made, clip=Tensor())  # type: ignore[arg-type]


def edit_head(**changes: Any) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        head = json.loads((folder / "pack.json").read_text())
        (folder / "pack.json").write_text(json.dumps(head | changes))

    return edit


def edit_array(name: str, change: Callable[[Any], Any]) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        np.save(folder / f"{name}.npy", change(np.load(folder / f"{name}.npy")))

    return edit


def truncate(name: str, keep: float) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        content = (folder / name).read_bytes()
        (folder / name).write_bytes(content[: int(keep * len(content))])

    return edit


def set_row(row: int, value: float) -> Callable[[Any], Any]:
    def change(array: Any) -> Any:
        array[row] = value
        return array

    return change


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda folder: (folder / "pack.json").unlink(), "it has no pack.json"),
        (lambda folder: (folder / "clip.npy").unlink(), "clip.npy' is missing"),
        (lambda folder: (folder / "aux.npy").unlink(), "aux.npy' is missing"),
        (truncate("pack.json", 0.5), "cannot be read as JSON"),
        (truncate("clip.npy", 0.5), "clip.npy' is truncated"),
        (truncate("labels.npy", 0.02), "labels.npy' is truncated"),
        (lambda folder: (folder / "text.npy").write_bytes(b""), "text.npy' is truncated"),
        (edit_head(format=2), "has the format 2; this version reads format 1"),
        (edit_head(class_names="cat"), "'class_names' must be a list; given 'cat'"),
        (edit_head(class_names=["cat"]), "text has 20 rows for 1 class names"),
        (edit_head(class_names=["cat"] * 20), "given more than once: 'cat'"),
        (edit_head(class_names=list(range(20))), "class names must be non-empty strings; given 0"),
        (edit_head(logit_scale="hot"), "logit_scale must be a positive number"),
        (edit_head(logit_scale=True), "logit_scale must be a positive number; given True"),
        (edit_head(aux="DINO"), "'aux' must be a dict or null; given 'DINO'"),
        (edit_head(aux=None), "aux.npy is there, but pack.json says 'aux': null"),
        (edit_head(clip={"dim": 33, "views": 4}), "pack.json says clip dim 33, but the array has 32"),
        (edit_head(clip={"views": 5}), "pack.json says clip views 5, but the array has 4"),
        (edit_head(aux={"dim": 5}), "pack.json says aux dim 5, but the array has 24"),
        (edit_array("clip", lambda a: a[:, 0]), r"clip must have the shape \[N, V, D\]"),
        (edit_array("clip", lambda a: a[:, :0]), r"clip must have the shape .* given \[120, 0, 32\]"),
        (edit_array("clip", lambda a: a.astype(np.float64)), "clip must be float16 or float32; given float64"),
        (edit_array("text", lambda a: a[:, :-1]), "text is 31 wide, clip 32 wide"),
        (edit_array("text", set_row(2, np.nan)), "text has NaN or infinity in row 2"),
        (edit_array("aux", lambda a: a[:-1]), "aux has 119 rows for 120 images"),
        (edit_array("labels", lambda a: a[:-1]), "labels must be whole numbers, one for each of 120 images"),
        (edit_array("labels", lambda a: a + 5), "the classes are 0 to 19"),
        (edit_array("clip", set_row(7, 0)), "clip.npy has a zero row: first at image 7, view 0, 4 in all"),
        (edit_array("clip", set_row(9, np.inf)), "clip.npy has NaN or infinity: first at image 9"),
        (edit_array("aux", set_row(11, 1)), "aux.npy has a row not of length 1 .*: first at image 11, 1 in all"),
    ],
)
def test_check_says_what_is_wrong(folder: Path, damage: Callable[[Path], None], said: str) -> None:
    damage(folder)
    problems = list(check_pack(folder))
    assert len(problems) == 1
    with pytest.raises(PackError, match=said):
        raise PackError(problems[0])


def test_a_bad_row_is_an_error_that_names_the_image(folder: Path) -> None:
    edit_array("clip", set_row(7, 0))(folder)
    with pytest.raises(PackError, match="image 7: clip has a row of zeros"):
        FeaturePack.open(folder).sample(7)


def test_auxiliary_features_can_be_removed_shuffled_or_random(pack: FeaturePack) -> None:
    assert pack.aux is not None
    assert pack.with_aux("given") is pack
    assert pack.with_aux("none").aux is None
    shuffled, random = pack.with_aux("shuffled", seed=1).aux, pack.with_aux("random", seed=1).aux
    assert shuffled is not None
    assert random is not None
    assert not np.array_equal(shuffled, pack.aux)
    np.testing.assert_array_equal(np.sort(shuffled, axis=0), np.sort(pack.aux, axis=0))
    assert abs(float((random * pack.aux).sum(axis=1).mean())) < 0.1
    assert pack.with_aux("none").with_aux("random").aux is None
    with pytest.raises(UnknownNameError, match="unknown kind of auxiliary features 'nil'"):
        pack.with_aux("nil")


def test_there_is_no_pack_where_there_is_no_folder(tmp_path: Path) -> None:
    assert "no pack at" in next(check_pack(tmp_path / "nowhere"))
