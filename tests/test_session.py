"""A session goes on after a restart, bit by bit, as if nothing had been."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_session import (
    SPECS,
    contents,
    laid_out,
    other_task,
    script,
    small_method,
    small_pack,
    small_samples,
    small_session,
    undisturbed,
)

from cosmic_tta import Sample, make_method
from cosmic_tta.errors import InputError, LockedError, SessionDamaged, SessionError
from cosmic_tta.session import Session
from cosmic_tta.state import state_digest

pytestmark = pytest.mark.pathless


@pytest.mark.parametrize("spec", SPECS)
def test_a_restart_after_any_event_changes_nothing(spec: str, tmp_path: Path) -> None:
    digests = undisturbed(tmp_path / "whole", script(), spec, every=1000)
    session = small_session(tmp_path / "killed", spec, every=7, keep=3)
    assert session.digest() == digests[0]
    for action in script():
        action(session)
        assert session.digest() == digests[session.number]
        session.abandon()  # as kill -9 does
        session = Session.open(tmp_path / "killed")
        assert session.digest() == digests[session.number]
        assert session.warnings == []
    assert session.number == max(digests)
    session.close()


@pytest.mark.parametrize("spec", SPECS)
def test_a_block_is_its_samples_one_by_one(spec: str, tmp_path: Path) -> None:
    samples = small_samples()
    one, many = small_session(tmp_path / "one", spec), small_session(tmp_path / "many", spec, policy="everysec")
    answers = [one.step([sample])[0] for sample in samples[:40]]
    together = [a for start in range(0, 40, 8) for a in many.step(samples[start : start + 8])]
    assert [a.number for a in together] == [a.number for a in answers] == list(range(1, 41))
    assert all(np.array_equal(a.prediction.scores, b.prediction.scores) for a, b in zip(together, answers, strict=True))
    assert one.digest() == many.digest()
    for session in (one, many):
        session.close()


def test_while_paused_it_answers_and_does_not_learn(tmp_path: Path) -> None:
    session = small_session(tmp_path / "s")
    session.step(small_samples()[:5])
    before = state_digest(session.state)
    session.pause()
    session.pause()  # twice is once
    looked = session.step(small_samples()[5:8])
    assert [a.learned for a in looked] == [False] * 3
    assert [a.number for a in looked] == [7, 8, 9]
    assert state_digest(session.state) == before
    assert session.monitor.counts["answered"] == 8
    assert session.monitor.counts["learned"] == 5
    assert np.array_equal(session.peek(small_samples()[5:6])[0].scores, looked[0].prediction.scores)
    session.resume()
    assert session.step(small_samples()[5:6])[0].learned
    assert session.seen == 6
    session.close()


def test_peek_writes_nothing(tmp_path: Path) -> None:
    session = small_session(tmp_path / "s")
    session.step(small_samples()[:3])
    before, files = session.digest(), contents(tmp_path / "s")
    session.peek(small_samples()[3:9])
    assert (session.digest(), contents(tmp_path / "s")) == (before, files)
    session.close()


def test_bad_input_writes_nothing(tmp_path: Path) -> None:
    session = small_session(tmp_path / "s")
    good = small_samples()[0]
    session.step([good])
    before, files = session.digest(), contents(tmp_path / "s")
    attempts: list[Any] = [
        lambda: session.step([good, Sample(good.clip)]),
        lambda: session.step([Sample(np.eye(1, 3, dtype=np.float32), good.aux)]),
        lambda: session.step([good], sources=["a", "b"]),
        lambda: session.step([good], sources="a"),
        lambda: session.step([good], sources=["x" * 1000]),
        lambda: session.step([good], tags=[""]),
        lambda: session.step([good], tags=[7]),  # type: ignore[list-item]
        lambda: session.step(["no sample"]),  # type: ignore[list-item]
        lambda: session.label(1, "nothing"),
        lambda: session.label(2, session.task.class_names[0]),
        lambda: session.label("1", session.task.class_names[0]),  # type: ignore[arg-type]
        lambda: session.roll_back("7"),
        lambda: session.roll_back("../../etc/passwd"),
        lambda: session.roll_back("٣"),
        lambda: session.snapshot("x" * 1000),
        lambda: session.without("nobody"),
        lambda: session.change_classes(session.task, {"nobody": "new"}),
        lambda: session.drop_snapshot("12"),
    ]
    for attempt in attempts:
        with pytest.raises(InputError):
            attempt()
    task = session.task
    for other in (
        replace(task, encoder="another"),
        replace(task, logit_scale=3.0),
        replace(task, text=task.text[::-1].copy()),
        replace(task, text=np.eye(4, 9, dtype=np.float32)),
    ):
        with pytest.raises(SessionError, match="create"):
            session.change_classes(other)
    assert session.step([]) == []
    assert (session.digest(), contents(tmp_path / "s")) == (before, files)
    session.close()


def test_labels_are_for_the_monitor_alone(tmp_path: Path) -> None:
    session = small_session(tmp_path / "s", "bayes_means@default")
    answers = session.step(small_samples()[:30])
    learned = state_digest(session.state)
    names = session.task.class_names
    labels = small_pack().labels
    assert labels is not None
    for answer, label in zip(answers, labels, strict=False):
        session.label(answer.number, names[label])
    right = sum(a.prediction.label == label for a, label in zip(answers, labels, strict=False))
    zero = sum(
        int(a.prediction.parts["zero_shot"].argmax()) == label for a, label in zip(answers, labels, strict=False)
    )
    assert session.monitor.accuracy == right / 30
    assert session.monitor.zero_shot_accuracy == zero / 30
    assert state_digest(session.state) == learned
    wrong = names[(answers[0].prediction.label + 1) % 4]
    session.label(1, wrong)  # the last word counts
    session.label(1, wrong)
    assert session.monitor.counts["labelled"] == 30
    session.labels((answer.number, names[label]) for answer, label in zip(answers[5:9], labels[5:9], strict=True))
    with pytest.raises(InputError, match="is no class"):
        session.labels([(2, names[0]), (3, "nothing")])
    session.labels([])
    told = session.monitor.describe()
    assert sum(row["count"] for row in told["confusions"]) == 30
    assert {"label": wrong, "answer": names[answers[0].prediction.label]}.items() <= max(
        told["confusions"],
        key=lambda row: row["label"] == wrong and row["answer"] == names[answers[0].prediction.label],
    ).items()
    latest = next(session.monitor.recent())
    assert (latest.number, latest.learned) == (30, True)
    session.close()


def test_roll_back_and_reset(tmp_path: Path) -> None:
    session = small_session(tmp_path / "s", "cosmic@default", every=5, keep=2)
    session.step(small_samples()[:3])
    early = state_digest(session.state)
    kept = session.snapshot("before lunch")
    for sample in small_samples()[3:30]:
        session.step([sample])
    assert [one.id for one in session.snapshots()] == ["000000000028", "000000000023", kept.id]
    session.roll_back(kept.id)
    assert state_digest(session.state) == early
    assert (session.seen, session.number) == (3, 31)
    assert session.monitor.counts["answered"] == 30  # what was answered was answered
    session.abandon()
    session = Session.open(tmp_path / "s")
    assert state_digest(session.state) == early
    session.reset()
    assert state_digest(session.state) == state_digest(session.method.init(session.task))
    with pytest.raises(SessionError, match="it stays"):
        session.drop_snapshot(session.snapshots()[0].id)
    session.drop_snapshot(kept.id)
    with pytest.raises(InputError, match="pruned"):
        session.roll_back(kept.id)
    session.close()


@pytest.mark.parametrize("spec", SPECS)
def test_without_a_source_is_as_if_it_had_never_come(spec: str, tmp_path: Path) -> None:
    def run(folder: Path, *, bad: bool) -> Session:
        session = small_session(folder, spec, every=6, keep=100)
        for number, sample in enumerate(small_samples()[:45]):
            source = ("bad", "good", None, "better")[number % 4] if number > 7 else "good"
            if source != "bad" or bad:
                session.step([sample], sources=[source])
            if number == 11:
                session.snapshot("noon")
            if number == 20:
                session.change_classes(other_task(session, 2, ("new",)))
            if number == 26:
                session.pause()
            if number == 28:
                session.resume()
            if number == 30:
                session.roll_back(next(one.id for one in session.snapshots() if one.note == "noon"))
            if number == 36:
                session.without("better")
        return session

    with run(tmp_path / "clean", bad=False) as clean, run(tmp_path / "spoiled", bad=True) as spoiled:
        if spec not in ("zero_shot@default", "tip_adapter@default"):
            assert state_digest(spoiled.state) != state_digest(clean.state)
        assert "bad" in spoiled.sources
        spoiled.without("bad")
        assert state_digest(spoiled.state) == state_digest(clean.state)
        assert spoiled.sources.keys() == clean.sources.keys()
        with pytest.raises(InputError, match="no source 'bad'"):
            spoiled.without("bad")
        more = small_samples()[50]
        one, two = spoiled.step([more])[0], clean.step([more])[0]
        assert np.array_equal(one.prediction.scores, two.prediction.scores)
    with Session.open(tmp_path / "spoiled") as again, Session.open(tmp_path / "clean") as clean:
        assert state_digest(again.state) == state_digest(clean.state)


def test_without_a_source_further_back_than_is_kept_is_refused(tmp_path: Path) -> None:
    session = small_session(tmp_path / "s", every=3, keep=2)
    session.step(small_samples()[:1], sources=["early"])
    for sample in small_samples()[1:30]:
        session.step([sample], sources=["late"])
    before = session.digest()
    with pytest.raises(SessionError, match="do not reach back"):
        session.without("early")
    assert session.digest() == before
    session.close()


def test_classes_can_be_added_removed_renamed(tmp_path: Path) -> None:
    session = small_session(tmp_path / "s", "bayes_means@default")
    first = session.step(small_samples()[:20])
    names = session.task.class_names
    session.change_classes(other_task(session, 0, ("added",)), about={"prompts": ["a {}"]})
    assert session.task.class_names == (*names[1:], "added")
    assert session.about == {"prompts": ["a {}"]}
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


def test_pruning_keeps_what_it_promises(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    session = small_session(folder, every=4, keep=3)
    session.step(small_samples()[:1])
    pinned = session.snapshot("pinned")
    for sample in small_samples()[1:40]:
        session.step([sample])
    listed = [one.number for one in session.snapshots()]
    assert listed == [37, 33, 29, pinned.number]
    assert sorted(path.name for path in folder.glob("journal-*")) == [
        f"journal-{number:012d}.log" for number in (30, 34, 38)
    ]
    files = contents(folder)
    digest = session.digest()
    session.close()
    # With the two newest snapshots gone or damaged, the third and the journal still give the same.
    for spoil in (b"", b"nothing", None):
        spoiled = dict(files)
        for number in listed[:2]:
            name = f"snapshot-{number:012d}.safetensors"
            spoiled.pop(name) if spoil is None else spoiled.update({name: spoil})
        laid_out(folder, spoiled)
        with Session.open(folder) as again:
            assert again.digest() == digest
            assert len(again.warnings) == (0 if spoil is None else 2)
        with Session.open(folder) as again:
            assert (again.digest(), again.warnings) == (digest, [])


def test_one_writer_a_folder(tmp_path: Path) -> None:
    session = small_session(tmp_path / "s")
    with pytest.raises(LockedError, match=r"in use by process \d+; one process a folder"):
        Session.open(tmp_path / "s")
    assert not session.closed
    session.close()
    session.close()
    assert session.closed
    with pytest.raises(SessionError, match="closed; open the session again"):
        session.step(small_samples()[:1])
    Session.open(tmp_path / "s").close()


def test_what_is_no_session_is_told(tmp_path: Path) -> None:
    with pytest.raises(SessionError, match="no session at"):
        Session.open(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(SessionDamaged, match="no snapshot that can be read") as caught:
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
    for about in ({"x": object()}, {"x": float("nan")}, {"x": "y" * (5 << 20)}):
        with pytest.raises(SessionError, match="about"):
            Session.create(tmp_path / "s", "x", task, method, about=about)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty"]


def test_another_parameter_prompt_or_encoder_is_refused_with_what_differs(tmp_path: Path) -> None:
    task = small_pack().task()
    Session.create(tmp_path / "s", "x", task, make_method("tda"), about={"templates": ["a {}"]}).close()
    Session.open(tmp_path / "s", method=make_method("tda"), task=task, about={"templates": ["a {}"]}).close()
    for given, said in (
        ({"method": make_method("tda", shots=5)}, "shots is 3 there, 5 here.*new stream"),
        ({"method": make_method("dmn")}, "method is 'tda' there, 'dmn' here"),
        ({"task": replace(task, encoder="other")}, "encoder is 'generated' there, 'other' here"),
        ({"task": replace(task, text=task.text[::-1].copy())}, "class texts are not the same"),
        ({"task": replace(task, class_names=("a", "b", "c", "d"))}, "classes differ"),
        ({"about": {"templates": ["the {}"]}}, r"about templates is \['a \{\}'\] there"),
    ):
        with pytest.raises(SessionError, match=said):
            Session.open(tmp_path / "s", **given)
    Session.open(tmp_path / "s").close()


@pytest.mark.parametrize("spec", SPECS)
def test_export_and_import(spec: str, tmp_path: Path) -> None:
    with small_session(tmp_path / "s", spec) as session:
        for action in script():
            action(session)
        session.export(tmp_path / "file")
        with Session.import_(tmp_path / "file", tmp_path / "t", "again") as other:
            assert (other.digest(), other.number, other.name) == (session.digest(), session.number, "again")
            assert other.stream != session.stream
            other.label(next(other.monitor.recent()).number, other.task.class_names[0])
            session.label(next(session.monitor.recent()).number, session.task.class_names[0])
            one, two = other.step(small_samples()[30:40]), session.step(small_samples()[30:40])
            assert all(np.array_equal(a.prediction.scores, b.prediction.scores) for a, b in zip(one, two, strict=True))
            digest = other.digest()
        with Session.open(tmp_path / "t") as other:
            assert other.digest() == digest


def test_a_step_that_fails_by_itself_is_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session = small_session(tmp_path / "s", "cosmic@default", every=4)
    session.step(small_samples()[:10])
    before = session.digest()
    kind = type(session.method)
    whole, calls = kind._block, 0

    def failing(self: Any, state: Any, samples: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls > 1:  # the one that rebuilds
            return whole(self, state, samples)
        whole(self, state, samples[:1])
        raise MemoryError

    monkeypatch.setattr(kind, "_block", failing)
    with pytest.raises(MemoryError):
        session.step(small_samples()[10:13])
    assert session.digest() == before
    assert session.number == 10
    monkeypatch.undo()
    session.step(small_samples()[10:13])
    digest = session.digest()
    session.abandon()
    with Session.open(tmp_path / "s") as again, small_session(tmp_path / "t", "cosmic@default") as whole_run:
        whole_run.step(small_samples()[:13])
        assert again.digest() == digest == whole_run.digest()
