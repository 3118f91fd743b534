from __future__ import annotations

import json
import struct
from pathlib import Path

import numpy as np
import pytest
from small_session import contents, laid_out, small_samples, small_session

from cosmic_tta import moments, records
from cosmic_tta.errors import SessionError, SnapshotError
from cosmic_tta.journal import Journal
from cosmic_tta.monitor import WINDOW
from cosmic_tta.records import Bad, Record, decode, encode, encode_header, place_at, read_header
from cosmic_tta.replay import Reader
from cosmic_tta.session import Session

pytestmark = pytest.mark.pathless
ZERO = bytes(16)


def test_a_record_comes_back_as_it_went() -> None:
    arrays = {"clip": np.arange(6, dtype=np.float32).reshape(2, 3), "aux": np.array([np.pi, -0.0], np.float32)}
    content, own = encode(Record("step", {"source": "Zürich", "n": [1, None]}, arrays), 7, 5, ZERO)
    place = place_at(memoryview(b"..." + content), 3)
    assert (place.number, place.synced, place.before, place.own) == (7, 5, ZERO, own)
    assert place.end == len(content) + 3
    again = decode(place)
    assert (again.kind, again.meta) == ("step", {"source": "Zürich", "n": [1, None]})
    assert {name: array.tobytes() for name, array in again.arrays.items()} == {
        name: array.tobytes() for name, array in arrays.items()
    }


def test_every_flipped_bit_of_a_record_is_seen() -> None:
    content, _ = encode(Record("step", {"a": 1}, {"clip": np.ones((1, 2), np.float32)}), 1, 0, ZERO)
    for bit in range(8 * len(content)):
        spoiled = bytearray(content)
        spoiled[bit // 8] ^= 1 << bit % 8
        with pytest.raises(Bad):
            place_at(memoryview(bytes(spoiled)), 0)
    for length in range(len(content)):
        with pytest.raises(Bad, match="cut short"):
            place_at(memoryview(content[:length]), 0)
    header = encode_header("stream", 1, ZERO, {"method": "tda"})
    assert read_header(memoryview(header)).about == {"method": "tda"}
    for bit in range(8 * len(header)):
        spoiled = bytearray(header)
        spoiled[bit // 8] ^= 1 << bit % 8
        with pytest.raises(Bad):
            read_header(memoryview(bytes(spoiled)))


def test_what_was_not_synced_together_is_cut_off_and_what_was_is_missed(tmp_path: Path) -> None:
    journal = Journal.create(tmp_path, "s", {}, policy="always")
    journal.append([Record("a")])
    journal.append([Record("b"), Record("c"), Record("d")])  # one sync for the three
    journal.close()
    path = next(tmp_path.glob("journal*"))
    data = path.read_bytes()
    starts = [at for at in range(len(data)) if data.startswith(records.MAGIC, at)]

    def read(spoiled_at: int, content: bytes = data) -> tuple[list[int], Reader]:
        spoiled = bytearray(content)
        spoiled[starts[spoiled_at] + 60] ^= 1
        path.write_bytes(bytes(spoiled))
        reader = Reader(tmp_path, "s", 0, None)
        return [one.number for one in reader], reader

    # The disk may have written the third of a block and not the second: nobody was answered yet.
    numbers, reader = read(1)
    assert (numbers, reader.damage) == ([1], None)
    assert reader.tail is not None
    assert reader.tail.torn == len(data) - starts[1]
    # But the first was synced before the block was written.
    numbers, reader = read(0)
    assert numbers == []
    assert reader.damage is not None


def test_records_are_synced_as_the_policy_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    syncs: list[int] = []
    monkeypatch.setattr("cosmic_tta.disk.sync", syncs.append)
    clock = [100.0]
    monkeypatch.setattr("cosmic_tta.journal.time.monotonic", lambda: clock[0])
    for policy, expected in (("always", 10), ("everysec", 3)):
        (tmp_path / policy).mkdir()
        journal = Journal.create(tmp_path / policy, "s", {}, policy=policy)  # type: ignore[arg-type]
        syncs.clear()
        for _ in range(10):
            clock[0] += 0.3
            journal.append([Record("a")])
        assert len(syncs) == expected if policy == "always" else 2 <= len(syncs) <= expected
        journal.append([Record("a")])
        synced = journal.synced
        clock[0] += 1.1
        journal.flush(due=True)
        assert journal.synced == 11
        assert synced == (11 if policy == "always" else synced)
        journal.close()


def test_a_long_segment_is_followed_by_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cosmic_tta.journal.SEGMENT_BYTES", 1000)
    session = small_session(tmp_path / "s")
    for sample in small_samples()[:20]:
        session.step([sample])
    digest = session.digest()
    session.abandon()
    assert len(list((tmp_path / "s").glob("journal*"))) > 3
    with Session.open(tmp_path / "s") as again:
        assert again.digest() == digest


def test_older_formats_are_brought_up_to_date(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with small_session(tmp_path / "s", every=4) as session:
        for sample in small_samples()[:6]:
            session.step([sample], tags=["word"])
        number = session.number

    # Two later formats: one renames a word of the header, the other gives every record a new one.
    def renamed(header: moments.Header, arrays: moments.Arrays) -> tuple[moments.Header, moments.Arrays]:
        return {**header, "about": {**header["about"], "first": True}}, arrays

    def again(header: moments.Header, arrays: moments.Arrays) -> tuple[moments.Header, moments.Arrays]:
        return {**header, "about": {**header["about"], "second": header["about"]["first"]}}, arrays

    monkeypatch.setattr(moments, "MIGRATIONS", (renamed, again))
    monkeypatch.setattr(
        records, "MIGRATIONS", (lambda r: Record(r.kind, {**r.meta, "tag": r.meta["tag"].upper()}, r.arrays),)
    )
    with Session.open(tmp_path / "s") as later:
        assert later.about == {"first": True, "second": True}
        assert [one.tag for one in later.monitor.recent(3)] == ["WORD", "WORD", "word"]  # four are in the snapshot
        assert later.number == number
        later.step(small_samples()[:1], tags=["word"])
        later.snapshot()
    monkeypatch.undo()
    # And what a later version wrote is refused, not misread, and not taken for damaged.
    files = contents(tmp_path / "s")
    with pytest.raises(SessionError, match="safetensors' has the format 3; this version reads up to 1"):
        Session.open(tmp_path / "s")
    monkeypatch.setattr(moments, "MIGRATIONS", (renamed, again))
    with pytest.raises(SessionError, match="the journal has the format 2; this version reads up to 1"):
        Session.open(tmp_path / "s")
    assert contents(tmp_path / "s") == files


def test_a_snapshot_holds_no_code_and_is_checked_array_by_array(tmp_path: Path) -> None:
    from safetensors.numpy import load, save

    with small_session(tmp_path / "s", "bayes_means@default") as session:
        session.step(small_samples()[:30])
        session.export(tmp_path / "file")
    content = (tmp_path / "file").read_bytes()
    arrays = load(content)
    (size,) = struct.unpack_from("<Q", content)
    text = json.loads(content[8 : 8 + size])["__metadata__"][moments.KEY]

    def written(header: dict[str, object], changed: dict[str, np.ndarray]) -> None:
        told = json.dumps(header)
        (tmp_path / "spoiled").write_bytes(save(changed, {moments.KEY: told, "digest": moments._digest(told, changed)}))

    header = json.loads(text)
    written(header, arrays)
    Session.import_(tmp_path / "spoiled", tmp_path / "sound", "x").close()
    # Files that match their checksum, and still make no sense.
    for key, value in (
        ("number", -1), ("number", "7"), ("chain", "00"), ("chain", 3), ("method", "nobody"), ("params", []),
        ("params", {"sharpness": -1}), ("class_names", ["a"]), ("class_names", [1, 2, 3, 4]), ("aux_dim", "6"),
        ("aux_dim", 60), ("aux_dim", 10**12),
        ("params", {**header["params"], "items_per_class": 10**6}),
        ("logit_scale", "x"), ("paused", 1), ("settings", {"policy": "never"}),
        ("settings", {"x": 1}), ("settings", []), ("sources", {"a": 1}), ("monitor", {}), ("about", None),
        ("monitor", {**header["monitor"], "counts": {"answered": 10**9}}), ("format", 99), ("format", "1"),
        ("monitor", {**header["monitor"], "names": []}), ("encoder", None), ("when", "noon"), ("name", 5),
    ):  # fmt: skip
        written({**header, key: value}, arrays)
        with pytest.raises((SnapshotError, SessionError)):
            Session.import_(tmp_path / "spoiled", tmp_path / "t", "x")
    for name, array in (
        ("state.prior", arrays["state.prior"][:-1]),
        ("state.prior", arrays["state.prior"].astype(np.float64)),
        ("state.live.mass", np.full_like(arrays["state.live.mass"], np.nan)),
        ("state.held", np.asarray(31)),
        ("state.extra", np.zeros(1, np.float32)),
        ("task.text", arrays["task.text"] * 2),
        ("task.other", np.zeros(1, np.float32)),
        ("monitor.answer", arrays["monitor.answer"] + 100),
        ("other.thing", np.zeros(1, np.float32)),
    ):
        written(header, {**arrays, name: array})
        with pytest.raises((SnapshotError, SessionError)):
            Session.import_(tmp_path / "spoiled", tmp_path / "t", "x")
    written(header, {name: array for name, array in arrays.items() if name != "state.label"})
    with pytest.raises(SnapshotError, match="holds the arrays"):
        Session.import_(tmp_path / "spoiled", tmp_path / "t", "x")
    (tmp_path / "spoiled").write_bytes(b"\x80\x04pickle")
    with pytest.raises(SnapshotError, match="no session"):
        Session.import_(tmp_path / "spoiled", tmp_path / "t", "x")
    with pytest.raises(SnapshotError, match="no snapshot at"):
        Session.import_(tmp_path / "nowhere", tmp_path / "t", "x")
    assert not (tmp_path / "t").exists()


def test_the_monitor_remembers_the_last_few_thousand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cosmic_tta.monitor.WINDOW", 10)
    assert WINDOW == 4096
    session = small_session(tmp_path / "s", "zero_shot@default", every=7)
    for sample in small_samples()[:25]:
        session.step([sample], tags=["t"])
    assert [one.number for one in session.monitor.recent()] == list(range(25, 15, -1))
    with pytest.raises(ValueError, match="the last 10 answers can be labelled"):
        session.label(15, session.task.class_names[0])
    session.label(16, session.task.class_names[0])
    digest = session.digest()
    session.abandon()
    with Session.open(tmp_path / "s") as again:
        assert again.digest() == digest
        assert again.monitor.describe() == session.monitor.describe()


def test_files_of_a_killed_process_are_swept_up(tmp_path: Path) -> None:
    small_session(tmp_path / "s").close()
    files = contents(tmp_path / "s")
    laid_out(tmp_path / "s", {**files, ".snapshot-000000000009.safetensors.abc.unfinished": b"half"})
    Session.open(tmp_path / "s").close()
    assert contents(tmp_path / "s") == files
