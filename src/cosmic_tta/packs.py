"""FeaturePack: encoded images in a folder that every method, sweep and test replays.

Format 1: `pack.json` beside `clip.npy` [N, V, D], `text.npy` [K, D] and, if there are any, `aux.npy` [N, E],
`labels.npy` and `domains.npy` [N] int64 and `keys.json`, the pictures' names. Features are float16 or float32, unit
rows to within 1e-3, view 0 the plain image.
Arrays are memory-mapped and never renormalised on load.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosmic_tta.core import UNIT_TOLERANCE, Sample, Support, Task, TextTower
from cosmic_tta.errors import CosmicError, PackError, unknown_name
from cosmic_tta.ops import as_float32, unit

FORMAT = 1
BLOCK = 4096  # rows checked at once
FLOATS = ("float16", "float32")
AUX_KINDS = ("given", "none", "shuffled", "random")


@dataclass(frozen=True, eq=False)
class FeaturePack:
    """The features of a data set's images, its class texts, and where they come from."""

    name: str
    class_names: tuple[str, ...]
    clip: NDArray[Any]  # [N, V, D]
    text: NDArray[Any]  # [K, D]
    aux: NDArray[Any] | None = None  # [N, E]
    labels: NDArray[Any] | None = None  # [N]; for the evaluator alone
    logit_scale: float = 100.0
    clip_model: str = ""
    aux_model: str = ""
    tower: TextTower | None = field(default=None, repr=False)  # of clip_model, for methods that learn; not written
    prompts: str = ""
    source: str = ""
    licence: str = ""
    keys: tuple[str, ...] = ()  # names of the pictures, in order, where they are known
    made: Mapping[str, Any] = field(default_factory=dict)  # how the features were made
    domains: NDArray[Any] | None = None  # [N] which domain an image is from, where there are several

    def __post_init__(self) -> None:
        for name in ("clip", "text", "aux", "labels", "domains"):
            object.__setattr__(self, name, _as_array(name, getattr(self, name)))
        _check_form(self)
        self.task()

    def __len__(self) -> int:
        return len(self.clip)

    @property
    def summary(self) -> str:
        """The pack's sizes in one line."""
        _, views, dim = self.clip.shape
        aux = "no auxiliary features" if self.aux is None else f"auxiliary features {self.aux.shape[1]} wide"
        labels = "no labels" if self.labels is None else "labels"
        named = ((len(self), "image", "images"), (self.text.shape[0], "class", "classes"), (views, "view", "views"))
        counted = ", ".join(f"{count} {one if count == 1 else many}" for count, one, many in named)
        return f"{counted} {dim} wide, {aux}, {labels}"

    def task(self) -> Task:
        """Return the task that this pack's images belong to."""
        aux_dim = None if self.aux is None else int(self.aux.shape[1])
        try:
            return Task(
                self.class_names,
                as_float32(self.text),
                self.logit_scale,
                aux_dim,
                self.clip_model,
                self.aux_model,
                self.tower,
            )
        except CosmicError as error:
            raise PackError(f"pack {self.name!r}: {error}") from error

    def sample(self, index: int) -> Sample:
        """Return one image's features, without its label."""
        try:
            return Sample(as_float32(self.clip[index]), None if self.aux is None else as_float32(self.aux[index]))
        except CosmicError as error:
            raise PackError(f"pack {self.name!r}, image {index}: {error}") from error

    def support(self) -> Support:
        """Return the plain views with their labels, as a few-shot method's training set."""
        if self.labels is None:
            raise PackError(f"pack {self.name!r} has no labels.npy; a support set needs labels.")
        return Support(as_float32(self.clip[:, 0]), np.array(self.labels), self.class_names)

    def with_aux(self, kind: str, seed: int = 0) -> FeaturePack:
        """Return the pack with its auxiliary features as `given`, `none` of them, `shuffled` or `random`.

        Shuffled between images or drawn anew they say nothing: what a method makes of them shows whether it
        notices.
        """
        if kind not in AUX_KINDS:
            raise unknown_name("kind of auxiliary features", kind, AUX_KINDS)
        if kind == "given" or self.aux is None:
            return self
        rng = np.random.default_rng([seed, 1])  # not the order's own stream of numbers
        if kind == "none":
            return replace(self, aux=None)
        if kind == "shuffled":
            return replace(self, aux=self.aux[rng.permutation(len(self))])
        return replace(self, aux=unit(as_float32(rng.standard_normal(self.aux.shape))))

    def with_tower(self, tower: TextTower) -> FeaturePack:
        """Return the pack with the text tower of its encoder, for methods that learn prompts."""
        return replace(self, tower=tower)

    @classmethod
    def open(cls, folder: str | os.PathLike[str]) -> FeaturePack:
        """Open a pack; its arrays stay on disk until they are read."""
        path = Path(folder)
        if not path.is_dir():
            raise PackError(f"no pack at {str(path)!r}: expected a folder with pack.json, clip.npy and text.npy.")
        head = _read_head(path)
        pack = cls(
            name=head["name"],
            class_names=tuple(head["class_names"]),
            clip=_read_array(path / "clip.npy"),
            text=_read_array(path / "text.npy"),
            aux=None if head.get("aux") is None else _read_array(path / "aux.npy"),
            labels=_read_array(path / "labels.npy") if (path / "labels.npy").exists() else None,
            logit_scale=head.get("logit_scale", 100.0),
            clip_model=head["clip"].get("model", ""),
            aux_model=(head.get("aux") or {}).get("model", ""),
            prompts=head.get("prompts", ""),
            source=head.get("source", ""),
            licence=head.get("licence", ""),
            keys=_read_keys(path / "keys.json"),
            made=head.get("made", {}),
            domains=_read_array(path / "domains.npy") if (path / "domains.npy").exists() else None,
        )
        _check_head(head, pack, path)
        return pack

    def write(self, folder: str | os.PathLike[str]) -> None:
        """Write the pack as a new folder; it appears whole or not at all."""
        path = Path(folder)
        if path.exists():
            raise PackError(f"{str(path)!r} is there already; remove it or choose another folder.")
        for problem in _row_problems(self):
            raise PackError(f"pack {self.name!r} was not written: {problem}")
        head = {
            "format": FORMAT,
            "name": self.name,
            "class_names": list(self.class_names),
            "logit_scale": self.logit_scale,
            "clip": {"model": self.clip_model, "dim": int(self.clip.shape[2]), "views": int(self.clip.shape[1])},
            "aux": None if self.aux is None else {"model": self.aux_model, "dim": int(self.aux.shape[1])},
            "prompts": self.prompts,
            "source": self.source,
            "licence": self.licence,
        } | ({"made": dict(self.made)} if self.made else {})
        names = ("clip", "text", "aux", "labels", "domains")
        arrays = {name: getattr(self, name) for name in names}
        unfinished = path.with_name(f".{path.name}.{os.getpid()}.unfinished")
        unfinished.mkdir(parents=True)
        try:
            for name, array in arrays.items():
                if array is not None:
                    np.save(unfinished / f"{name}.npy", array)
                    _settle(unfinished / f"{name}.npy")
            if self.keys:
                _write_json(unfinished / "keys.json", self.keys)
            _write_json(unfinished / "pack.json", head)
            unfinished.rename(path)
        except BaseException:
            shutil.rmtree(unfinished, ignore_errors=True)
            raise


def check_pack(folder: str | os.PathLike[str]) -> Iterator[str]:
    """Yield what is wrong with a pack, one sentence each, reading all of it; a sound pack yields nothing."""
    try:
        pack = FeaturePack.open(folder)
    except PackError as error:
        yield str(error)
        return
    yield from _row_problems(pack)


def _row_problems(pack: FeaturePack) -> Iterator[str]:
    for name, array in (("clip.npy", pack.clip), ("aux.npy", pack.aux)):
        if array is not None:
            yield from _check_rows(name, array)


def _check_rows(name: str, array: NDArray[Any]) -> Iterator[str]:
    """Yield a sentence for each kind of bad row in [N, D] or [N, V, D], naming the first one of its kind."""
    first: dict[str, str] = {}
    count: dict[str, int] = {}
    for start in range(0, len(array), BLOCK):
        rows = as_float32(array[start : start + BLOCK])
        norms = np.linalg.norm(rows, axis=-1)
        kinds = {
            "NaN or infinity": ~np.isfinite(norms),
            "a zero row": norms == 0,
            f"a row not of length 1 (to within {UNIT_TOLERANCE:g})": np.isfinite(norms)
            & (norms > 0)
            & (abs(norms - 1) > UNIT_TOLERANCE),
        }
        for kind, bad in kinds.items():
            if bad.any():
                where = [int(i) for i in np.argwhere(bad)[0]]
                place = f"image {start + where[0]}" + (f", view {where[1]}" if len(where) > 1 else "")
                first.setdefault(kind, place)
                count[kind] = count.get(kind, 0) + int(bad.sum())
    for kind, place in first.items():
        yield f"{name} has {kind}: first at {place}, {count[kind]} in all."


def _read_head(path: Path) -> dict[str, Any]:
    file = path / "pack.json"
    try:
        head = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise PackError(
            f"{str(path)!r} is no feature pack: it has no pack.json. (Pictures become a pack by cosmic extract.)"
        ) from error
    except (OSError, ValueError) as error:
        raise PackError(f"{str(file)!r} cannot be read as JSON: {error}") from error
    if not isinstance(head, dict) or head.get("format") != FORMAT:
        given = head.get("format") if isinstance(head, dict) else None
        raise PackError(f"{str(file)!r} has the format {given!r}; this version reads format {FORMAT}.")
    wanted = {"name": str, "class_names": list, "clip": dict}
    for key, kind in wanted.items():
        if not isinstance(head.get(key), kind):
            raise PackError(f"{str(file)!r}: {key!r} must be a {kind.__name__}; given {head.get(key)!r:.60}.")
    if not isinstance(head.get("aux"), (dict, type(None))):
        raise PackError(f"{str(file)!r}: 'aux' must be a dict or null; given {head['aux']!r:.60}.")
    return head


def _check_head(head: dict[str, Any], pack: FeaturePack, path: Path) -> None:
    """Refuse a pack.json that contradicts the arrays beside it."""
    if pack.aux is None and (path / "aux.npy").exists():
        raise PackError(f"{str(path)!r}: aux.npy is there, but pack.json says 'aux': null; remove one of them.")
    told = {"clip dim": head["clip"].get("dim"), "clip views": head["clip"].get("views")}
    real = {"clip dim": pack.clip.shape[2], "clip views": pack.clip.shape[1]}
    if pack.aux is not None:
        told["aux dim"], real["aux dim"] = head["aux"].get("dim"), pack.aux.shape[1]
    for key, value in told.items():
        if value is not None and value != real[key]:
            raise PackError(f"{str(path)!r}: pack.json says {key} {value!r}, but the array has {real[key]}.")


def _write_json(file: Path, value: Any) -> None:
    text = json.dumps(value, indent=1, ensure_ascii=False)
    # A file name that is no UTF-8 has code points that no encoder takes; escaped, they are JSON.
    file.write_text(text, encoding="utf-8", errors="backslashreplace")
    _settle(file)


def _settle(file: Path) -> None:
    """Have a file on disk, not on its way there: a pack whose name is there must survive a power cut."""
    with open(file, "r+b") as written:
        os.fsync(written.fileno())


def _read_keys(file: Path) -> tuple[str, ...]:
    if not file.exists():
        return ()
    try:
        keys = json.loads(file.read_text(encoding="utf-8", errors="surrogateescape"))
    except ValueError as error:
        raise PackError(f"{str(file)!r} cannot be read as JSON: {error}") from error
    if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
        raise PackError(f"{str(file)!r} must hold a list of names.")
    return tuple(keys)


def _as_array(name: str, value: Any) -> NDArray[Any] | None:
    if value is None or isinstance(value, np.ndarray):
        return value
    try:
        return np.asarray(value)
    except (TypeError, ValueError, RuntimeError) as error:
        hint = "a tensor is written x.detach().float().cpu().numpy()"
        raise PackError(f"{name} must be a NumPy array; given {type(value).__name__} ({hint}).") from error


def _read_array(file: Path) -> NDArray[Any]:
    try:
        array: NDArray[Any] = np.load(file, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError as error:
        raise PackError(f"{str(file)!r} is missing, though the pack speaks of it.") from error
    except (OSError, ValueError, EOFError) as error:
        raise PackError(f"{str(file)!r} is truncated or no .npy file: {error}") from error
    return array


def _check_form(pack: FeaturePack) -> None:
    """Refuse arrays whose types or shapes disagree with each other."""
    where = f"pack {pack.name!r}: "
    named = {"clip": (pack.clip, 3, "[N, V, D]"), "text": (pack.text, 2, "[K, D]"), "aux": (pack.aux, 2, "[N, E]")}
    for name, (array, ndim, form) in named.items():
        if array is None:
            continue
        if array.ndim != ndim or 0 in array.shape:
            raise PackError(f"{where}{name} must have the shape {form}, none of them 0; given {list(array.shape)}.")
        if array.dtype.name not in FLOATS:
            raise PackError(f"{where}{name} must be float16 or float32; given {array.dtype}: .astype(np.float32).")
    if pack.text.shape[1] != pack.clip.shape[2]:
        raise PackError(f"{where}text is {pack.text.shape[1]} wide, clip {pack.clip.shape[2]} wide; they must agree.")
    if len(pack.text) != len(pack.class_names):
        raise PackError(f"{where}text has {len(pack.text)} rows for {len(pack.class_names)} class names.")
    if pack.aux is not None and len(pack.aux) != len(pack.clip):
        raise PackError(f"{where}aux has {len(pack.aux)} rows for {len(pack.clip)} images.")
    if pack.keys and len(pack.keys) != len(pack.clip):
        raise PackError(f"{where}there are {len(pack.keys)} keys for {len(pack.clip)} images.")
    for name, numbers in (("labels", pack.labels), ("domains", pack.domains)):
        if numbers is not None and (numbers.shape != (len(pack.clip),) or numbers.dtype.kind not in "iu"):
            given = f"{numbers.dtype} {list(numbers.shape)}"
            raise PackError(
                f"{where}{name} must be whole numbers, one for each of {len(pack.clip)} images; given {given}."
            )
    if pack.labels is not None:
        low, high = int(pack.labels.min()), int(pack.labels.max())
        if low < 0 or high >= len(pack.class_names):
            last = len(pack.class_names) - 1
            raise PackError(f"{where}labels go from {low} to {high}; the classes are 0 to {last}.")
