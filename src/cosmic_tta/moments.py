"""A session at one moment ⇄ one safe file: safetensors with a JSON header, versioned, atomic, checked array by array.

Everything is in it that a session needs to go on: method and parameters, classes and their texts, what was learned,
the monitor, and where in the journal it stands. There is no pickle: nothing in a file is ever run.
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

from cosmic_tta import __version__
from cosmic_tta.core import Method, State, Support, Task
from cosmic_tta.disk import read_all, write_whole
from cosmic_tta.errors import CosmicError, SessionError, SnapshotError
from cosmic_tta.guards import Guard, Remembered
from cosmic_tta.kernel import COMPILED
from cosmic_tta.methods import make_method
from cosmic_tta.monitor import Monitor
from cosmic_tta.parameters import values
from cosmic_tta.snapshot import check_arrays, fill
from cosmic_tta.state import arrays_digest, leaves, state_arrays

Arrays = dict[str, NDArray[Any]]
Header = dict[str, Any]
Towering = Callable[[Task], Task]  # a task → the same with the text tower of its encoder
KEY = "cosmic_tta_session"
LARGEST_HEADER = 64 << 20
SIZES = ("shots", "items_per_class")  # parameters that say how much a state holds

# Format n becomes n + 1 by entry n - 1. Entries are only ever appended; each takes and gives (header, arrays).
MIGRATIONS: tuple[Callable[[Header, Arrays], tuple[Header, Arrays]], ...] = ()


def current_format() -> int:
    """Return the format that this version writes."""
    return 1 + len(MIGRATIONS)


def build() -> str:
    """Return what must be the same for a replay to give the same bits."""
    path = "plain" if COMPILED is None else "compiled"
    return f"cosmic-tta {__version__} {path}, NumPy {np.__version__}, {platform.machine()}"


@dataclass
class Standing:
    """What the next answer of a session depends on; and which sources had a part in it."""

    method: Method[Any]
    state: State
    about: dict[str, Any] = field(default_factory=dict)
    guard: Guard | None = None
    remembered: Remembered | None = None  # what the guard remembers
    sources: dict[str, list[int]] = field(default_factory=dict)  # name → [number of its first step, steps]


@dataclass
class Moment:
    """A session at one moment."""

    stream: str
    name: str
    number: int  # of the last event that is in it
    chain: bytes  # the journal's checksum there
    standing: Standing
    monitor: Monitor
    paused: bool
    settings: dict[str, Any]
    note: str = ""
    when: float = field(default_factory=time.time)
    build: str = field(default_factory=build)


class SnapshotInfo(NamedTuple):
    """A snapshot in a list: `id` is how to ask for it; one with a note is kept until it is removed."""

    id: str
    number: int
    note: str
    when: float
    seen: int
    bytes: int


def encode(moment: Moment) -> bytes:
    """Return a moment as the bytes of a file."""
    from safetensors.numpy import save as to_bytes

    standing = moment.standing
    task, support = standing.state.task, getattr(standing.method, "support", None)
    arrays = {f"state.{name}": array for name, array in state_arrays(standing.state).items()}
    arrays |= {f"monitor.{name}": array for name, array in moment.monitor.arrays().items()}
    arrays["task.text"] = task.text
    if standing.remembered is not None:
        arrays |= {f"guard.{name}": np.asarray(value) for name, value in leaves(standing.remembered)}
    if support is not None:
        arrays |= {"support.features": support.features, "support.labels": support.labels}
    header = {
        "format": current_format(),
        "stream": moment.stream,
        "name": moment.name,
        "number": moment.number,
        "chain": moment.chain.hex(),
        "note": moment.note,
        "when": moment.when,
        "build": moment.build,
        "paused": moment.paused,
        "settings": moment.settings,
        "seen": standing.state.seen,
        "method": standing.method.name,
        "params": values(standing.method),
        "support_names": None if support is None or support.class_names is None else list(support.class_names),
        "class_names": list(task.class_names),
        "logit_scale": task.logit_scale,
        "encoder": task.encoder,
        "aux_encoder": task.aux_encoder,
        "aux_dim": task.aux_dim,
        "about": standing.about,
        "guard": None if standing.guard is None else asdict(standing.guard),
        "sources": standing.sources,
        "monitor": moment.monitor.plain(),
    }
    text = json.dumps(header, ensure_ascii=False, allow_nan=False)
    return to_bytes(arrays, {KEY: text, "digest": _digest(text, arrays)})


def _digest(text: str, arrays: Arrays) -> str:
    return blake2b((text + arrays_digest(arrays)).encode(), digest_size=16).hexdigest()


def write(path: Path, moment: Moment) -> None:
    """Write a moment; the file is there whole, or what was there before still is."""
    write_whole(path, encode(moment))


def read(path: Path, stream: str | None = None, tower: Towering | None = None) -> Moment:
    """Read a moment; anything that is damaged, of another stream or makes no sense is refused.

    `tower` gives a task its text tower, for a method that learns through it.
    """
    header, arrays = _read(path)
    try:
        moment = _decode(path, header, arrays, tower)
    except SnapshotError:
        raise
    except (CosmicError, KeyError, TypeError, ValueError, AttributeError, MemoryError) as error:
        raise SnapshotError(f"{str(path)!r} cannot be loaded: {error}") from error
    if stream is not None and moment.stream != stream:
        raise SnapshotError(f"{str(path)!r} belongs to another stream.")
    return moment


def _read(path: Path) -> tuple[Header, Arrays]:
    try:
        return parse(read_all(path), f"{str(path)!r}")
    except FileNotFoundError as error:
        raise SnapshotError(f"no snapshot at {str(path)!r}.") from error


def parse(content: bytes, what: str) -> tuple[Header, Arrays]:
    """Take a file's bytes apart and check them against their checksum; bring an older format up to date."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        arrays = load(content)
        (size,) = struct.unpack_from("<Q", content)
        metadata = json.loads(content[8 : 8 + size])["__metadata__"]
        text, digest = metadata[KEY], metadata["digest"]
        header = json.loads(text)
    except (SafetensorError, KeyError, ValueError, TypeError, AttributeError, struct.error, RecursionError) as error:
        raise SnapshotError(f"{what} is no session of cosmic-tta, or it is damaged: {error}") from error
    if digest != _digest(text, arrays):
        raise SnapshotError(f"{what} is damaged: its contents do not match their checksum.")
    if not isinstance(header, dict) or type(header.get("format")) is not int:
        raise SnapshotError(f"{what} is damaged: its header makes no sense.")
    return migrated(header, arrays, what)


def migrated(header: Header, arrays: Arrays, what: str) -> tuple[Header, Arrays]:
    """Bring what an older version wrote up to date; what a later one wrote is refused."""
    given = header["format"]
    if not 1 <= given <= current_format():
        raise SessionError(
            f"{what} has the format {given}; this version reads up to {current_format()}. Use the later version."
        )
    for step in MIGRATIONS[given - 1 :]:
        header, arrays = step(header, arrays)
    return header, arrays


def _typed(header: Header, name: str, *kinds: type) -> Any:
    value = header[name]
    if type(value) not in kinds:
        raise TypeError(f"{name} is {value!r}")
    return value


def _decode(path: Path, header: Header, arrays: Arrays, tower: Towering | None) -> Moment:
    names = _typed(header, "class_names", list)
    params, about = _typed(header, "params", dict), _typed(header, "about", dict)
    sources = {str(name): [int(first), int(count)] for name, (first, count) in _typed(header, "sources", dict).items()}
    groups: dict[str, Arrays] = {"state": {}, "monitor": {}, "task": {}, "support": {}, "guard": {}}
    for name, array in arrays.items():
        group, _, rest = name.partition(".")
        groups[group][rest] = array
    if set(groups["task"]) != {"text"} or groups["task"]["text"].dtype != np.float32:
        raise SnapshotError(f"{str(path)!r} is damaged: it holds no class texts.")
    task = Task(
        tuple(names), groups["task"]["text"], _typed(header, "logit_scale", float), _aux_dim(header),
        _typed(header, "encoder", str), _typed(header, "aux_encoder", str),
    )  # fmt: skip
    if groups["support"]:
        support_names = _typed(header, "support_names", list, type(None))
        support = Support(
            groups["support"]["features"],
            groups["support"]["labels"],
            None if support_names is None else tuple(support_names),
        )
        params = {**params, "support": support}
    method = make_method(_typed(header, "method", str), **params)
    if "tower" in method.needs and tower is not None:
        task = tower(task)
    _refuse_large(path, params, task, sum(array.nbytes for array in arrays.values()))
    state = method.init(task)
    check_arrays(path, groups["state"], state)
    fill(path, state, groups["state"])
    guard, remembered = _guard(path, header, task, groups["guard"])
    number = _typed(header, "number", int)
    if number < 0 or len(chain := bytes.fromhex(_typed(header, "chain", str))) != 16:
        raise SnapshotError(f"{str(path)!r} is damaged: its header makes no sense.")
    return Moment(
        stream=_typed(header, "stream", str), name=_typed(header, "name", str), number=number, chain=chain,
        standing=Standing(method, state, about, guard, remembered, sources),
        monitor=Monitor.restore(_typed(header, "monitor", dict), groups["monitor"]),
        paused=_typed(header, "paused", bool), settings=_typed(header, "settings", dict),
        note=_typed(header, "note", str), when=float(_typed(header, "when", float, int)),
        build=_typed(header, "build", str),
    )  # fmt: skip


def _guard(path: Path, header: Header, task: Task, arrays: Arrays) -> tuple[Guard | None, Remembered | None]:
    told = _typed(header, "guard", dict, type(None))
    if told is None:
        return None, None
    guard = Guard(**told)
    remembered = guard.init(task)
    check_arrays(path, arrays, remembered)
    fill(path, remembered, arrays)
    return guard, remembered


def _refuse_large(path: Path, params: Mapping[str, Any], task: Task, held: int) -> None:
    """Refuse a file that asks for much more memory than it fills: no honest one does."""
    slots = max((value for name, value in params.items() if name.endswith(SIZES) and type(value) is int), default=1)
    asked = 4 * task.classes * slots * max(task.dim, task.aux_dim or 0, task.classes, slots)
    if asked > 4 * held + LARGEST_HEADER:
        raise SnapshotError(f"{str(path)!r} asks for {asked >> 20} MB and holds {held >> 20}; it makes no sense.")


def _aux_dim(header: Header) -> int | None:
    value: int | None = _typed(header, "aux_dim", int, type(None))
    return value


def read_info(path: Path) -> SnapshotInfo:
    """Read what a list tells of a snapshot, from the file's header alone; damage further down is not seen."""
    header = _glance(path)
    try:
        number, note, when, seen = header["number"], header["note"], header["when"], header["seen"]
        size = path.stat().st_size
        return SnapshotInfo(snapshot_id(int(number)), int(number), str(note), float(when), int(seen), size)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SnapshotError(f"{str(path)!r} is damaged: its header makes no sense.") from error


def _glance(path: Path) -> Mapping[str, Any]:
    try:
        with open(path, "rb") as file:
            (size,) = struct.unpack("<Q", file.read(8))
            if size > LARGEST_HEADER:
                raise ValueError
            header: Mapping[str, Any] = json.loads(json.loads(file.read(size))["__metadata__"][KEY])
            return header
    except (OSError, ValueError, KeyError, TypeError, struct.error, RecursionError) as error:
        raise SnapshotError(f"{str(path)!r} is damaged: its header makes no sense.") from error


def told(folder: Path) -> tuple[str, dict[str, Any]]:
    """Return the name and what is told about a session by its newest readable snapshot; nothing if none is."""
    for number in snapshot_numbers(folder):
        with suppress(SnapshotError, KeyError, TypeError, ValueError):
            header = _glance(snapshot_path(folder, number))
            return str(header["name"]), dict(header["about"])
    return "", {}


def snapshot_id(number: int) -> str:
    """Return how a snapshot at some event is called."""
    return f"{number:012d}"


def snapshot_path(folder: Path, number: int) -> Path:
    """Return where the snapshot at some event lies."""
    return folder / f"snapshot-{snapshot_id(number)}.safetensors"


def snapshot_numbers(folder: Path) -> list[int]:
    """Return the events at which there are snapshots, the newest first."""
    found = [path.stem.removeprefix("snapshot-") for path in folder.glob("snapshot-*.safetensors")]
    return sorted((int(number) for number in found if number.isdigit()), reverse=True)
