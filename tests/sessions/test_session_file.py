from __future__ import annotations

import json
import struct
from pathlib import Path

import numpy as np
import pytest

from cosmic_tta.core.errors import SessionError, SnapshotError
from cosmic_tta.sessions import session_file
from cosmic_tta.sessions.session import Session
from cosmic_tta.sessions.session_file import read_name_and_metadata, snapshot_path
from tests.support.session_damage import as_session_format
from tests.support.small_session import small_samples, small_session

pytestmark = pytest.mark.pathless


def test_metadata_is_taken_from_valid_snapshots_alone(tmp_path: Path) -> None:
    with small_session(tmp_path / "s", metadata={"token_hash": "secret"}) as session:
        name = session.name
        session.step(small_samples()[:3])
        session.snapshot("second")
    first, second = (snapshot_path(tmp_path / "s", number) for number in (0, 3))
    assert read_name_and_metadata(tmp_path / "s") == (name, {"token_hash": "secret"})
    content = second.read_bytes()
    second.write_bytes(content.replace(b"token_hash", b"token_hush"))  # valid JSON; the checksum tells
    assert read_name_and_metadata(tmp_path / "s") == (name, {"token_hash": "secret"})
    first.write_bytes(as_session_format(first.read_bytes(), 1))
    assert read_name_and_metadata(tmp_path / "s") == (name, None)
    for path in (first, second):
        path.write_bytes(b"")
    assert read_name_and_metadata(tmp_path / "s") == ("", None)


def test_a_snapshot_holds_no_code_and_is_checked_array_by_array(tmp_path: Path) -> None:
    from safetensors.numpy import load, save

    with small_session(tmp_path / "s", "bayes_means@default") as session:
        session.step(small_samples()[:30])
        session.export(tmp_path / "file")
    content = (tmp_path / "file").read_bytes()
    arrays = load(content)
    (size,) = struct.unpack_from("<Q", content)
    text = json.loads(content[8 : 8 + size])["__metadata__"][session_file.HEADER_KEY]

    def written(header: dict[str, object], changed: dict[str, np.ndarray]) -> None:
        signed = json.dumps(header)
        (tmp_path / "corrupted").write_bytes(
            save(
                changed,
                {session_file.HEADER_KEY: signed, "digest": session_file.digest(signed, changed)},
            )
        )

    header = json.loads(text)
    written(header, arrays)
    Session.import_(tmp_path / "corrupted", tmp_path / "valid", "x").close()
    # Files that match their checksum, and still make no sense.
    for key, value in (
        ("number", -1), ("number", "7"), ("chain", "00"), ("chain", 3), ("method", "nobody"), ("params", []),
        ("params", {"sharpness": -1}), ("class_names", ["a"]), ("class_names", [1, 2, 3, 4]), ("aux_dim", "6"),
        ("aux_dim", 60), ("aux_dim", 10**12),
        ("params", {**header["params"], "window": 10**6}),
        ("logit_scale", "x"), ("paused", 1), ("settings", {"policy": "never"}),
        ("settings", {"x": 1}), ("settings", []), ("sources", {"a": 1}), ("monitor", {}), ("metadata", None),
        ("monitor", {**header["monitor"], "counts": {"answered": 10**9}}), ("format", 99), ("format", "1"),
        ("monitor", {**header["monitor"], "names": []}), ("encoder", None), ("when", "noon"), ("name", 5),
    ):  # fmt: skip
        written({**header, key: value}, arrays)
        with pytest.raises((SnapshotError, SessionError)):
            Session.import_(tmp_path / "corrupted", tmp_path / "t", "x")
    for name, array in (
        ("state.window.prior", arrays["state.window.prior"][:-1]),
        ("state.window.prior", arrays["state.window.prior"].astype(np.float64)),
        ("state.live.soft_count", np.full_like(arrays["state.live.soft_count"], np.nan)),
        ("state.window.held", np.asarray(31)),
        ("state.extra", np.zeros(1, np.float32)),
        ("task.text", arrays["task.text"] * 2),
        ("task.other", np.zeros(1, np.float32)),
        ("monitor.answer", arrays["monitor.answer"] + 100),
        ("other.thing", np.zeros(1, np.float32)),
    ):
        written(header, {**arrays, name: array})
        with pytest.raises((SnapshotError, SessionError)):
            Session.import_(tmp_path / "corrupted", tmp_path / "t", "x")
    written(header, {name: array for name, array in arrays.items() if name != "state.window.label"})
    with pytest.raises(SnapshotError, match="holds the arrays"):
        Session.import_(tmp_path / "corrupted", tmp_path / "t", "x")
    (tmp_path / "corrupted").write_bytes(b"\x80\x04pickle")
    with pytest.raises(SnapshotError, match="no session"):
        Session.import_(tmp_path / "corrupted", tmp_path / "t", "x")
    with pytest.raises(SnapshotError, match="no snapshot at"):
        Session.import_(tmp_path / "nowhere", tmp_path / "t", "x")
    assert not (tmp_path / "t").exists()
