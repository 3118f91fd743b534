from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save as to_bytes

from cosmic_tta import Cosmic, Dmn, Method, State, Support, Task, TipAdapter, make_method
from cosmic_tta.core.errors import InputError, SnapshotError
from cosmic_tta.core.state_tree import arrays_digest, state_arrays, state_digest
from cosmic_tta.features.pack import FeaturePack
from cosmic_tta.methods.cosmic.state import CosmicState
from cosmic_tta.sessions.state_file import load, refuse_differences, save

METHOD = Cosmic()


@pytest.fixture
def state(pack: FeaturePack) -> CosmicState:
    state = METHOD.init(pack.task())
    METHOD.steps(state, [pack.sample(i) for i in range(40)])
    return state


@pytest.fixture
def file(tmp_path: Path, state: CosmicState) -> Path:
    save(tmp_path / "state.safetensors", METHOD, state)
    return tmp_path / "state.safetensors"


def test_a_file_is_one_safetensors_with_a_readable_header(file: Path, pack: FeaturePack) -> None:
    with safe_open(file, framework="numpy") as stored:
        header = json.loads(stored.metadata()["cosmic_tta"])
    assert header["format"] == 5
    assert header["method"] == "cosmic"
    assert header["params"]["shots"] == 8
    assert header["class_names"] == list(pack.class_names)
    assert header["encoder"] == header["aux_encoder"] == "generated"
    assert [path.name for path in file.parent.iterdir()] == [file.name]


def test_a_task_without_an_auxiliary_width_adopts_that_of_the_file(
    file: Path, pack: FeaturePack, state: CosmicState
) -> None:
    again = load(file, METHOD, replace(pack.task(), aux_dim=None))
    assert state_digest(again) == state_digest(state)
    assert again.task.aux_dim == 24


@pytest.mark.parametrize(
    ("method", "change", "message"),
    [
        (Dmn(), {}, "something else: method is 'cosmic' there, 'dmn' here.$"),
        (Cosmic(shots=4), {}, "shots is 8 there, 4 here"),
        (METHOD, {"class_names": tuple("xabcdefghijklmnopqrs")}, "only there: bird 1, .*; only here: x, a"),
        (METHOD, {"logit_scale": 50.0}, "logit_scale is 30.0 there, 50.0 here"),
        (METHOD, {"encoder": "another"}, "encoder is 'generated' there, 'another' here"),
        (METHOD, {"aux_dim": 25}, "aux_dim is 24 there, 25 here"),
    ],
)
def test_another_method_or_task_is_refused_with_what_differs(
    file: Path, pack: FeaturePack, method: Method[Any], change: dict[str, Any], message: str
) -> None:
    with pytest.raises(SnapshotError, match=message):
        load(file, method, replace(pack.task(), **change))


def test_at_most_three_parameters_are_named() -> None:
    stored = {"method": "m", "params": dict.fromkeys("abcde", 1), "encoder": "e"}
    for names, said in (
        ("abc", "a is 1 there, 2 here; b is 1 there, 2 here; c is 1 there, 2 here."),
        ("abcd", "c is 1 there, 2 here; and 1 more parameter."),
        ("abcde", "c is 1 there, 2 here; and 2 more parameters; encoder is 'e' there, 'f' here."),
    ):
        changed = dict.fromkeys(names, 2)
        expected = {**stored, "params": {**dict.fromkeys("abcde", 1), **changed}}
        with pytest.raises(SnapshotError) as refused:
            refuse_differences("it", stored, expected | ({"encoder": "f"} if len(names) == 5 else {}))
        assert str(refused.value).endswith(said)


def test_other_texts_and_another_order_of_classes_are_refused(file: Path, pack: FeaturePack) -> None:
    task = pack.task()
    with pytest.raises(SnapshotError, match="class texts differ"):
        load(file, METHOD, replace(task, text=task.text[::-1]))
    with pytest.raises(SnapshotError, match="classes are in another order"):
        load(file, METHOD, replace(task, class_names=task.class_names[::-1]))


def test_another_support_is_refused(tmp_path: Path, pack: FeaturePack) -> None:
    support = pack.support()
    method = TipAdapter(support=support)
    save(tmp_path / "tip", method, method.init(pack.task()))
    load(tmp_path / "tip", method, pack.task())
    other = TipAdapter(support=Support(support.features, support.labels[::-1].copy()))
    with pytest.raises(SnapshotError, match="support set differs"):
        load(tmp_path / "tip", other, pack.task())


def rewrite(file: Path, change: Callable[[dict[str, Any], dict[str, Any]], None], *, sign: bool = True) -> None:
    """Change a file's header and arrays; with `sign`, its checksum too, as a forger would."""
    with safe_open(file, framework="numpy") as stored:
        arrays = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118
        header = json.loads(stored.metadata()["cosmic_tta"])
    change(header, arrays)
    if sign:
        header["digest"] = arrays_digest(arrays)
    file.write_bytes(to_bytes(arrays, {"cosmic_tta": json.dumps(header)}))


def put(name: str, make: Callable[[Any], Any]) -> Callable[[dict[str, Any], dict[str, Any]], None]:
    return lambda _, arrays: arrays.update({name: make(arrays[name])})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda header, _: header.update(format=1), "has state format 1; this version reads format 5"),
        (lambda _, arrays: arrays.pop("seen"), "holds the arrays"),
        (lambda _, arrays: arrays.update(more=np.zeros(1)), "holds the arrays"),
        (
            put("css.memory.cache.slots", lambda a: a[:, :4].copy()),
            r"is float32 \[20, 4, 32\]; expected float32 \[20, 8",
        ),
        (put("css.memory.cache.slots", lambda a: a.astype(np.float64)), "is float64"),
        (put("css.memory.cache.count", lambda a: a + 100), "contradicts itself"),
        (put("css.hyperclasses.sizes", lambda a: a + 1), "inconsistent"),
        (put("css.hyperclasses.scale", lambda a: a * np.float32(np.nan)), "css.hyperclasses.scale has NaN or infinity"),
        (put("afv.memory.centres", lambda a: a + np.float32(np.inf)), "afv.memory.centres has NaN or infinity"),
        (put("css.memory.cache.slots", lambda a: a * np.float32(1e9)), "contradicts itself"),
        (put("css.memory.cache.sample", lambda a: np.where(a < 0, a, a + 99)), "speaks of samples that never came"),
        (put("css.hyperclasses.nodes", lambda a: a * 0), "do not cover their graph"),
        (put("css.frozen.classes", lambda a: a + 10**6), "not nodes of this space"),
        (lambda header, _: header.update(aux_dim="x"), "its header is invalid"),
        (lambda header, _: header.update(class_names=[["a"]]), "its header is invalid"),
        (put("css.hyperclasses.nodes", lambda a: a + 10**6), "do not cover their graph"),
        (put("seen", lambda a: np.array(-a)), "has seen -40 samples"),
    ],
)
def test_a_forged_file_is_refused(file: Path, pack: FeaturePack, change: Any, message: str) -> None:
    rewrite(file, change)
    with pytest.raises(SnapshotError, match=message):
        load(file, METHOD, pack.task())


def test_a_state_of_an_older_format_is_refused_and_stays_as_it_is(
    file: Path, pack: FeaturePack, state: CosmicState
) -> None:
    save(file.with_name("good"), METHOD, state)
    rewrite(file, lambda header, _: header.update(format=4))
    before = file.read_bytes()
    with pytest.raises(SnapshotError, match=r"safetensors' has state format 4; this version reads format 5\.$"):
        load(file, METHOD, pack.task())
    assert file.read_bytes() == before
    assert state_digest(load(file.with_name("good"), METHOD, pack.task())) == state_digest(state)


def test_a_header_without_checksum_is_refused(file: Path, pack: FeaturePack) -> None:
    rewrite(file, lambda header, _: header.pop("digest"), sign=False)
    with pytest.raises(SnapshotError, match="its header is invalid"):
        load(file, METHOD, pack.task())
    with pytest.raises(TypeError, match="recent is a list"):
        state_arrays(ListState(pack.task(), seen=0, recent=[1]))


@dataclass
class ListState(State):
    recent: list[int]


def test_one_flipped_bit_is_noticed(file: Path, pack: FeaturePack) -> None:
    content = bytearray(file.read_bytes())
    content[-100] ^= 1
    file.write_bytes(content)
    with pytest.raises(SnapshotError, match="damaged: its contents do not match their checksum"):
        load(file, METHOD, pack.task())


@pytest.mark.parametrize("keep", [0.0, 0.001, 0.5, 0.999])
def test_a_truncated_file_is_refused(file: Path, pack: FeaturePack, keep: float) -> None:
    content = file.read_bytes()
    file.write_bytes(content[: int(keep * len(content))])
    with pytest.raises(SnapshotError, match="no saved state of cosmic-tta, or it is damaged"):
        load(file, METHOD, pack.task())


def test_a_missing_file_and_a_foreign_file_are_refused(tmp_path: Path, pack: FeaturePack) -> None:
    with pytest.raises(SnapshotError, match="no saved state at"):
        load(tmp_path / "nowhere", METHOD, pack.task())
    (tmp_path / "model").write_bytes(to_bytes({"weight": np.zeros(3)}))
    with pytest.raises(SnapshotError, match="no saved state of cosmic-tta"):
        load(tmp_path / "model", METHOD, pack.task())


def test_a_failed_write_leaves_the_old_file(
    file: Path, state: CosmicState, pack: FeaturePack, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    before = file.read_bytes()
    METHOD.step(state, pack.sample(50))
    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(SnapshotError, match="cannot write .* No space left on device"):
        save(file, METHOD, state)
    assert file.read_bytes() == before
    assert [path.name for path in file.parent.iterdir()] == [file.name]


def test_a_state_is_saved_only_with_the_method_that_made_it(tmp_path: Path, state: CosmicState) -> None:
    with pytest.raises(InputError, match="made by cosmic"):
        save(tmp_path / "x", Cosmic(shots=3), state)
    with pytest.raises(SnapshotError, match="cannot write .*No such file"):
        save(tmp_path / "nowhere" / "x", METHOD, state)


def test_names_of_arrays_are_stable(pack: FeaturePack) -> None:
    task: Task = pack.task()
    assert set(state_arrays(make_method("dmn").init(task))) == {
        "seen",
        "memory.cache.slots",
        "memory.cache.entropy",
        "memory.cache.sample",
        "memory.cache.count",
        "memory.gram",
    }
