from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cosmic_tta.core.errors import SessionError
from cosmic_tta.sessions.class_changes import class_change, next_task
from cosmic_tta.sessions.session import Session
from tests.support.small_session import other_task, small_pack, small_samples, small_session

pytestmark = pytest.mark.pathless


def test_classes_can_be_added_removed_renamed(tmp_path: Path) -> None:
    session = small_session(tmp_path / "s", "bayes_means@default")
    first = session.step(small_samples()[:20])
    names = session.task.class_names
    session.change_classes(other_task(session, 0, ("added",)), metadata={"prompts": ["a {}"]})
    assert session.task.class_names == (*names[1:], "added")
    assert session.metadata == {"prompts": ["a {}"]}
    assert session.step(small_samples()[20:21])[0].prediction.scores.shape == (4,)
    session.label(first[3].number, "added")
    task = session.task
    # A class that stays keeps its text to the bit, whatever an encoder's rounding.
    near = task.text + np.float32(1e-5)
    session.change_classes(replace(task, text=near))
    assert np.array_equal(session.task.text, task.text)
    session.change_classes(replace(task, class_names=("one", *task.class_names[1:])), {names[1]: "one"})
    assert "one" in session.monitor.names
    assert names[1] not in session.monitor.names
    digest = session.digest()
    session.abandon()
    with Session.open(tmp_path / "s") as again:
        assert again.digest() == digest


def test_a_change_that_needs_a_new_stream_is_refused() -> None:
    now = small_pack().task()
    other_text = now.text.copy()
    other_text[0] = now.text[1]
    for wanted, message in (
        (replace(now, encoder="another"), "encoder is 'another', but this stream has 'generated'"),
        (replace(now, logit_scale=3.0), "logit_scale is 3.0, but this stream has 30.0"),
        (replace(now, text=np.eye(4, 9, dtype=np.float32)), "9 wide, but those of this stream are 8 wide"),
        (replace(now, text=other_text), f"the text of {now.class_names[0]!r} differs"),
    ):
        with pytest.raises(SessionError, match=f"{message}.*: create a new stream"):
            next_task(now, wanted, {})


def test_a_class_that_stays_keeps_its_text_to_the_bit() -> None:
    now = small_pack().task()
    rounded = (now.text * np.float32(1 + 1e-4)).astype(np.float32)
    renamed = {now.class_names[0]: "renamed"}
    task = next_task(now, replace(now, text=rounded, class_names=("renamed", *now.class_names[1:])), renamed)
    assert np.array_equal(task.text[1:], now.text[1:])
    assert np.array_equal(task.text[0], rounded[0])  # another name has another text


def test_the_event_of_a_change_holds_names_texts_and_metadata() -> None:
    now = small_pack().task()
    record = class_change(now, now, None, None)
    assert (record.kind, record.meta) == (
        "classes_changed",
        {"class_names": list(now.class_names), "renamed": {}},
    )
    assert np.array_equal(record.arrays["text"], now.text)
    assert class_change(now, now, None, {"a": (1,)}).meta["metadata"] == {"a": [1]}
