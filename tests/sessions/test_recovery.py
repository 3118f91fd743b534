from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cosmic_tta import make_method
from cosmic_tta.core.errors import SessionDamagedError, SessionError
from cosmic_tta.sessions.session import Session
from cosmic_tta.sessions.session_file import snapshot_path
from tests.support.small_session import (
    contents,
    script,
    small_method,
    small_pack,
    small_samples,
    small_session,
    undisturbed,
    write_files,
)

pytestmark = pytest.mark.pathless


def test_unfinished_files_of_a_killed_process_are_removed(tmp_path: Path) -> None:
    small_session(tmp_path / "s").close()
    files = contents(tmp_path / "s")
    write_files(tmp_path / "s", {**files, ".snapshot-000000000009.safetensors.abc.unfinished": b"half"})
    Session.open(tmp_path / "s").close()
    assert contents(tmp_path / "s") == files


def test_a_folder_that_is_no_session_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SessionError, match="no session at"):
        Session.open(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(SessionDamagedError, match="no snapshot that can be read") as caught:
        Session.open(tmp_path / "empty")
    assert caught.value.recoverable is None
    task, method = small_pack().task(), small_method("tda")
    with pytest.raises(SessionError, match="exists already"):
        Session.create(tmp_path / "empty", "x", task, method)
    for name, how in (
        ("", {}),
        ("x" * 500, {}),
        ("x", {"keep": 0}),
        ("x", {"every": True}),
        ("x", {"policy": "never"}),
    ):
        with pytest.raises(SessionError):
            Session.create(tmp_path / "s", name, task, method, **how)
    for metadata in ({"x": object()}, {"x": float("nan")}, {"x": "y" * (5 << 20)}):
        with pytest.raises(SessionError, match="metadata"):
            Session.create(tmp_path / "s", "x", task, method, metadata=metadata)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty"]


def test_another_parameter_prompt_or_encoder_is_refused_with_what_differs(tmp_path: Path) -> None:
    task = small_pack().task()
    Session.create(tmp_path / "s", "x", task, make_method("tda"), metadata={"templates": ["a {}"]}).close()
    Session.open(tmp_path / "s", method=make_method("tda"), task=task, metadata={"templates": ["a {}"]}).close()
    for given, message in (
        ({"method": make_method("tda", shots=5)}, "shots is 3 there, 5 here.*new stream"),
        ({"method": make_method("dmn")}, "method is 'tda' there, 'dmn' here"),
        ({"task": replace(task, encoder="other")}, "encoder is 'generated' there, 'other' here"),
        ({"task": replace(task, text=task.text[::-1].copy())}, "class texts differ"),
        ({"task": replace(task, class_names=("a", "b", "c", "d"))}, "classes differ"),
        ({"metadata": {"templates": ["the {}"]}}, r"metadata templates is \['a \{\}'\] there"),
    ):
        with pytest.raises(SessionError, match=message):
            Session.open(tmp_path / "s", **given)
    Session.open(tmp_path / "s").close()


def test_damage_before_the_end_is_refused_and_names_the_last_recoverable_event(tmp_path: Path) -> None:
    digests = undisturbed(tmp_path / "s", script()[:9], every=100)
    files = contents(tmp_path / "s")
    (name,) = (name for name in files if name.startswith("journal"))
    content = bytearray(files[name])
    content[len(content) // 2] ^= 4
    write_files(tmp_path / "s", {**files, name: bytes(content)})
    with pytest.raises(
        SessionDamagedError, match=r"does not match its checksum.*up to event 2 can be recovered"
    ) as caught:
        Session.open(tmp_path / "s")
    assert caught.value.recoverable == 2
    with Session.open(tmp_path / "s", recover=True) as session:
        assert session.digest() == digests[2]
        assert "recovered up to event 2." in session.warnings
        session.step(small_samples()[:2])
        digest = session.digest()
    assert (tmp_path / "s" / f"{name}.damaged").read_bytes() == bytes(content)
    with Session.open(tmp_path / "s") as session:
        assert session.digest() == digest


def test_a_snapshot_of_another_stream_is_refused(tmp_path: Path) -> None:
    with small_session(tmp_path / "one", "tda", every=100) as one, small_session(tmp_path / "two", "tda") as two:
        for session in (one, two):
            session.step(small_samples()[:4])
            session.snapshot()
        name = snapshot_path(tmp_path, 4).name
    (tmp_path / "one" / name).write_bytes((tmp_path / "two" / name).read_bytes())
    with pytest.raises(SessionDamagedError, match="another stream"):
        Session.open(tmp_path / "one")
