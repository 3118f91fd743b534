"""Snapshot of a session in one safetensors file: versioned, written atomically, checked array by array.

The file holds everything that a session needs to continue: the method and its parameters, the classes and their
texts, the adapted state, the monitor, and the position in the journal. There is no pickle: a file never runs code.
"""

from __future__ import annotations

import json
import platform
import struct
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cosmic_tta.core.errors import CosmicError, SessionFormatError, SnapshotError
from cosmic_tta.core.files import read_all, write_atomic
from cosmic_tta.core.kernel import COMPILED
from cosmic_tta.core.method import Method
from cosmic_tta.core.parameters import state_slots, values
from cosmic_tta.core.state_tree import arrays_digest, check_arrays, fill, leaves, state_arrays
from cosmic_tta.core.types import State, Support, Task
from cosmic_tta.core.version import __version__
from cosmic_tta.methods import make_method
from cosmic_tta.sessions.admission import AdmissionPolicy, RecentSamples
from cosmic_tta.sessions.monitor import Monitor

Arrays = dict[str, NDArray[Any]]
Header = dict[str, Any]
TowerLoader = Callable[[Task], Task]  # returns the task with the text tower of its encoder
FORMAT = 2
HEADER_KEY = "cosmic_tta_session"
MAX_HEADER_BYTES = 64 << 20


def build() -> str:
    """Return what must be equal for a replay to give the same bits."""
    path = "plain" if COMPILED is None else "compiled"
    return f"cosmic-tta {__version__} {path}, NumPy {np.__version__}, {platform.machine()}"


@dataclass
class AdaptationState:
    """Everything that the next answer of a session depends on, and the sources that contributed to it."""

    method: Method[Any]
    state: State
    metadata: dict[str, Any] = field(default_factory=dict)
    guard: AdmissionPolicy | None = None
    recent_samples: RecentSamples | None = None  # of the guard
    sources: dict[str, list[int]] = field(default_factory=dict)  # name → [number of its first step, steps]


@dataclass
class SessionSnapshot:
    """A session after one event."""

    stream_id: str
    name: str
    number: int  # of the last event that it includes
    chain: bytes  # checksum of that event in the journal
    adaptation: AdaptationState
    monitor: Monitor
    paused: bool
    settings: dict[str, Any]
    note: str = ""
    when: float = field(default_factory=time.time)
    build: str = field(default_factory=build)


class SnapshotInfo(NamedTuple):
    """A snapshot in a list; one with a note is kept until it is removed."""

    id: str
    number: int
    note: str
    when: float
    seen: int
    bytes: int


def encode(snapshot: SessionSnapshot) -> bytes:
    """Return the bytes of a snapshot's file."""
    from safetensors.numpy import save as to_bytes

    adaptation = snapshot.adaptation
    task, support = adaptation.state.task, getattr(adaptation.method, "support", None)
    arrays = {f"state.{name}": array for name, array in state_arrays(adaptation.state).items()}
    arrays |= {f"monitor.{name}": array for name, array in snapshot.monitor.arrays().items()}
    arrays["task.text"] = task.text
    if adaptation.recent_samples is not None:
        arrays |= {f"guard.{name}": np.asarray(value) for name, value in leaves(adaptation.recent_samples)}
    if support is not None:
        arrays |= {"support.features": support.features, "support.labels": support.labels}
    header = {
        "format": FORMAT,
        "stream_id": snapshot.stream_id,
        "name": snapshot.name,
        "number": snapshot.number,
        "chain": snapshot.chain.hex(),
        "note": snapshot.note,
        "when": snapshot.when,
        "build": snapshot.build,
        "paused": snapshot.paused,
        "settings": snapshot.settings,
        "seen": adaptation.state.seen,
        "method": adaptation.method.name,
        "params": values(adaptation.method),
        "support_names": None if support is None or support.class_names is None else list(support.class_names),
        "class_names": list(task.class_names),
        "logit_scale": task.logit_scale,
        "encoder": task.encoder,
        "aux_encoder": task.aux_encoder,
        "aux_dim": task.aux_dim,
        "metadata": adaptation.metadata,
        "guard": None if adaptation.guard is None else asdict(adaptation.guard),
        "sources": adaptation.sources,
        "monitor": snapshot.monitor.plain(),
    }
    text = json.dumps(header, ensure_ascii=False, allow_nan=False)
    return to_bytes(arrays, {HEADER_KEY: text, "digest": digest(text, arrays)})


def digest(header: str, arrays: Arrays) -> str:
    """Return the checksum of a snapshot's header and arrays."""
    return blake2b((header + arrays_digest(arrays)).encode(), digest_size=16).hexdigest()


def write(path: Path, snapshot: SessionSnapshot) -> None:
    """Write a snapshot; if that fails, the file that was there before stays."""
    write_atomic(path, encode(snapshot))


def read(path: Path, stream_id: str | None = None, tower: TowerLoader | None = None) -> SessionSnapshot:
    """Read a snapshot.

    Args:
        path: the file.
        stream_id: if given, the snapshot must belong to this stream.
        tower: loads the text tower of a task, for methods that learn through it.

    Raises:
        SnapshotError: the file is missing, damaged, or of another stream.
        SessionFormatError: another version wrote it, in another format.
    """
    try:
        header, arrays = parse(read_all(path), f"{str(path)!r}")
    except FileNotFoundError as error:
        raise SnapshotError(f"no snapshot at {str(path)!r}.") from error
    try:
        snapshot = _decode(path, header, arrays, tower)
    except SnapshotError:
        raise
    except (CosmicError, KeyError, TypeError, ValueError, AttributeError, MemoryError) as error:
        raise SnapshotError(f"{str(path)!r} cannot be loaded: {error}") from error
    if stream_id is not None and snapshot.stream_id != stream_id:
        raise SnapshotError(f"{str(path)!r} belongs to another stream.")
    return snapshot


def parse(content: bytes, name: str) -> tuple[Header, Arrays]:
    """Split a file's bytes into header and arrays, and check checksum and format; `name` is for errors."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        arrays = load(content)
        (size,) = struct.unpack_from("<Q", content)
        metadata = json.loads(content[8 : 8 + size])["__metadata__"]
        text, stored_digest = metadata[HEADER_KEY], metadata["digest"]
        header = json.loads(text)
    except (SafetensorError, KeyError, ValueError, TypeError, AttributeError, struct.error, RecursionError) as error:
        raise SnapshotError(f"{name} is no session of cosmic-tta, or it is damaged: {error}") from error
    if stored_digest != digest(text, arrays):
        raise SnapshotError(f"{name} is damaged: its contents do not match their checksum.")
    if not isinstance(header, dict) or type(header.get("format")) is not int:
        raise SnapshotError(f"{name} is damaged: its header is invalid.")
    if header["format"] != FORMAT:
        raise SessionFormatError(f"{name} has session format {header['format']}; this version reads format {FORMAT}.")
    return header, arrays


def _typed(header: Header, name: str, *kinds: type) -> Any:
    value = header[name]
    if type(value) not in kinds:
        raise TypeError(f"{name} is {value!r}")
    return value


def _decode(path: Path, header: Header, arrays: Arrays, tower: TowerLoader | None) -> SessionSnapshot:
    metadata = _typed(header, "metadata", dict)
    sources = {str(name): [int(first), int(count)] for name, (first, count) in _typed(header, "sources", dict).items()}
    groups: dict[str, Arrays] = {"state": {}, "monitor": {}, "task": {}, "support": {}, "guard": {}}
    for name, array in arrays.items():
        group, _, rest = name.partition(".")
        groups[group][rest] = array
    task = _decode_task(path, header, groups["task"])
    params = _typed(header, "params", dict) | _decode_support(header, groups["support"])
    method = make_method(_typed(header, "method", str), **params)
    if "tower" in method.needs and tower is not None:
        task = tower(task)
    _refuse_oversized(path, method, task, sum(array.nbytes for array in arrays.values()))
    state = method.init(task)
    check_arrays(path, groups["state"], state)
    fill(path, state, groups["state"])
    guard, recent_samples = _decode_guard(path, header, task, groups["guard"])
    number = _typed(header, "number", int)
    if number < 0 or len(chain := bytes.fromhex(_typed(header, "chain", str))) != 16:
        raise SnapshotError(f"{str(path)!r} is damaged: its header is invalid.")
    return SessionSnapshot(
        stream_id=_typed(header, "stream_id", str), name=_typed(header, "name", str), number=number, chain=chain,
        adaptation=AdaptationState(method, state, metadata, guard, recent_samples, sources),
        monitor=Monitor.restore(_typed(header, "monitor", dict), groups["monitor"]),
        paused=_typed(header, "paused", bool), settings=_typed(header, "settings", dict),
        note=_typed(header, "note", str), when=float(_typed(header, "when", float, int)),
        build=_typed(header, "build", str),
    )  # fmt: skip


def _decode_task(path: Path, header: Header, arrays: Arrays) -> Task:
    if set(arrays) != {"text"} or arrays["text"].dtype != np.float32:
        raise SnapshotError(f"{str(path)!r} is damaged: it holds no class texts.")
    return Task(
        tuple(_typed(header, "class_names", list)), arrays["text"], _typed(header, "logit_scale", float),
        _typed(header, "aux_dim", int, type(None)), _typed(header, "encoder", str), _typed(header, "aux_encoder", str),
    )  # fmt: skip


def _decode_support(header: Header, arrays: Arrays) -> dict[str, Support]:
    if not arrays:
        return {}
    names = _typed(header, "support_names", list, type(None))
    return {"support": Support(arrays["features"], arrays["labels"], None if names is None else tuple(names))}


def _decode_guard(
    path: Path, header: Header, task: Task, arrays: Arrays
) -> tuple[AdmissionPolicy | None, RecentSamples | None]:
    fields = _typed(header, "guard", dict, type(None))
    if fields is None:
        return None, None
    guard = AdmissionPolicy(**fields)
    recent_samples = guard.init(task)
    check_arrays(path, arrays, recent_samples)
    fill(path, recent_samples, arrays)
    return guard, recent_samples


def _refuse_oversized(path: Path, method: Method[Any], task: Task, held: int) -> None:
    """Refuse a file whose parameters ask for much more memory than its arrays fill."""
    slots = state_slots(method)
    asked = 4 * task.classes * slots * max(task.dim, task.aux_dim or 0, task.classes, slots)
    if asked > 4 * held + MAX_HEADER_BYTES:
        raise SnapshotError(f"{str(path)!r} asks for {asked >> 20} MB but holds {held >> 20} MB; it is damaged.")


def read_info(path: Path) -> SnapshotInfo:
    """Read a snapshot's entry for a list from the file's header; the arrays are not checked."""
    header = _read_header(path)
    try:
        number, note, when, seen = header["number"], header["note"], header["when"], header["seen"]
        size = path.stat().st_size
        return SnapshotInfo(snapshot_id(int(number)), int(number), str(note), float(when), int(seen), size)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SnapshotError(f"{str(path)!r} is damaged: its header is invalid.") from error


def _read_header(path: Path) -> Mapping[str, Any]:
    try:
        with open(path, "rb") as file:
            (size,) = struct.unpack("<Q", file.read(8))
            if size > MAX_HEADER_BYTES:
                raise ValueError
            header: Mapping[str, Any] = json.loads(json.loads(file.read(size))["__metadata__"][HEADER_KEY])
            return header
    except (OSError, ValueError, KeyError, TypeError, struct.error, RecursionError) as error:
        raise SnapshotError(f"{str(path)!r} is damaged: its header is invalid.") from error


def read_name_and_metadata(folder: Path) -> tuple[str, dict[str, Any] | None]:
    """Return name and metadata of a session that cannot be opened; empty and None if they cannot be read.

    Metadata comes from a snapshot of this format whose checksum is right, since access to the session depends on it.
    A name is taken from any header that has one.
    """
    found = ""
    for number in snapshot_numbers(folder):
        path = snapshot_path(folder, number)
        with suppress(CosmicError, OSError, KeyError, TypeError, ValueError):
            name = _read_header(path)["name"]
            found = found or (name if isinstance(name, str) else "")
            header, _ = parse(read_all(path), f"{str(path)!r}")
            return _typed(header, "name", str), dict(header["metadata"])
    return found, None


def snapshot_id(number: int) -> str:
    """Return the id of the snapshot after an event."""
    return f"{number:012d}"


def snapshot_path(folder: Path, number: int) -> Path:
    """Return the path of the snapshot after an event."""
    return folder / f"snapshot-{snapshot_id(number)}.safetensors"


def snapshot_numbers(folder: Path) -> list[int]:
    """Return the events after which there are snapshots, the newest first."""
    found = [path.stem.removeprefix("snapshot-") for path in folder.glob("snapshot-*.safetensors")]
    return sorted((int(number) for number in found if number.isdigit()), reverse=True)
