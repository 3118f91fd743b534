from __future__ import annotations

from pathlib import Path

import pytest

from cosmic_tta.core.errors import InputError, SessionError
from cosmic_tta.sessions.input_checks import MAX_SOURCES, checked_metadata, checked_names
from tests.support.small_session import small_samples, small_session

pytestmark = pytest.mark.pathless


def test_sources_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cosmic_tta.sessions.input_checks.MAX_SOURCES", 3)
    samples = small_samples()
    with small_session(tmp_path / "s") as session:
        session.step(samples[:3], sources=["a", "b", "c"])
        with pytest.raises(InputError, match="at most 3 sources"):
            session.step(samples[3:5], sources=["a", "d"])
        assert session.step(samples[3:5], sources=["a", None])[1].number == 5
    assert MAX_SOURCES == 4096


def test_metadata_comes_back_as_json_gives_it() -> None:
    assert checked_metadata({"a": (1, 2), "b": {3: None}}) == {"a": [1, 2], "b": {"3": None}}
    for metadata, message in (
        ({"a": object()}, "plain values"),
        ({"a": float("nan")}, "plain values"),
        ({"a": "x" * (5 << 20)}, "may have 4194304 bytes"),
    ):
        with pytest.raises(SessionError, match=message):
            checked_metadata(metadata)


def test_there_is_one_name_or_none_per_sample() -> None:
    assert checked_names(None, 2, "tags") == [None, None]
    assert checked_names(("a", None), 2, "tags") == ["a", None]
    for names, message in (
        ("ab", "tags must be one for each of the 2 samples"),
        (["a"], "given 1"),
        (["a", ""], "1 to 200 characters"),
        (["a", "x" * 201], "1 to 200 characters"),
        (["a", 7], "given 7"),
    ):
        with pytest.raises(InputError, match=message):
            checked_names(names, 2, "tags")  # type: ignore[arg-type]
