"""Feature packs: folders of encoded images that methods, sweeps and tests read.

Format 1: `pack.json`, `clip.npy` [N, V, D] and `text.npy` [K, D]. Optional files are `aux.npy` [N, E], `labels.npy`
and `domains.npy` [N] int64, and `keys.json`, the names of the images.
Features are float16 or float32, unit rows to within 1e-3; view 0 is the plain image.
Arrays are memory-mapped, and never normalised again.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosmic_tta.core.arrays import as_float32, unit
from cosmic_tta.core.errors import CosmicError, PackError, unknown_name
from cosmic_tta.core.files import new_folder
from cosmic_tta.core.types import UNIT_TOLERANCE, PromptTower, Sample, Support, Task
from cosmic_tta.features.pack_format import FORMAT, check_head, read_array, read_head, read_keys, write_json

BLOCK = 4096  # rows checked at once
FLOATS = ("float16", "float32")
ARRAYS = ("clip", "text", "aux", "labels", "domains")
AUX_KINDS = ("given", "none", "shuffled", "random")


@dataclass(frozen=True, eq=False)
class FeaturePack:
    """The features of a data set's images, its class texts, and where they come from.

    Args:
        name: Name of the pack.
        class_names: The classes, in the order of their labels.
        clip: Features of the views, [N, V, D]; view 0 is the plain image.
        text: Features of the classes, [K, D].
        aux: Features of the auxiliary encoder, [N, E].
        labels: Labels of the images, [N]. No method gets them; see `sample`.
        logit_scale: Factor from cosines to logits.
        clip_model: Name of the encoder of `clip` and `text`.
        aux_model: Name of the encoder of `aux`.
        tower: Text tower of `clip_model`, for methods that learn prompts. It is not written to disk.
        prompts: Templates of the class texts.
        source: Where the images come from.
        licence: Their licence.
        keys: Names of the images, in order, if they are known.
        provenance: How the features were made: settings of the extraction, images left out.
        domains: Number of the domain that each image is from, [N], if there are several.

    Raises:
        PackError: The arrays have wrong types or shapes, or contradict each other.

    Examples:
        >>> eye = np.eye(2, dtype=np.float32)
        >>> pack = FeaturePack("two", ("cat", "dog"), clip=eye[:, None], text=eye, labels=np.array([0, 1]))
        >>> pack.summary
        '2 images, 2 classes, 1 view 2 wide, no auxiliary features, labels'
        >>> import tempfile
        >>> folder = f"{tempfile.mkdtemp()}/two"
        >>> pack.write(folder)
        >>> FeaturePack.open(folder).sample(1).clip
        array([[0., 1.]], dtype=float32)
    """

    name: str
    class_names: tuple[str, ...]
    clip: NDArray[Any]
    text: NDArray[Any]
    aux: NDArray[Any] | None = None
    labels: NDArray[Any] | None = None
    logit_scale: float = 100.0
    clip_model: str = ""
    aux_model: str = ""
    tower: PromptTower | None = field(default=None, repr=False)
    prompts: str = ""
    source: str = ""
    licence: str = ""
    keys: tuple[str, ...] = ()
    provenance: Mapping[str, Any] = field(default_factory=dict)
    domains: NDArray[Any] | None = None

    def __post_init__(self) -> None:
        for name in ARRAYS:
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
        """Return the plain views with their labels, as the training set of a few-shot method."""
        if self.labels is None:
            raise PackError(f"pack {self.name!r} has no labels.npy; a support set needs labels.")
        return Support(as_float32(self.clip[:, 0]), np.array(self.labels), self.class_names)

    def with_aux(self, kind: str, seed: int = 0) -> FeaturePack:
        """Return the pack with its auxiliary features as `given`, `none` of them, `shuffled` or `random`.

        Shuffled and random features carry no information: they show whether a method relies on them blindly.
        """
        if kind not in AUX_KINDS:
            raise unknown_name("kind of auxiliary features", kind, AUX_KINDS)
        if kind == "given" or self.aux is None:
            return self
        rng = np.random.default_rng([seed, 1])  # independent of the numbers that shuffle the stream
        if kind == "none":
            return replace(self, aux=None)
        if kind == "shuffled":
            return replace(self, aux=self.aux[rng.permutation(len(self))])
        return replace(self, aux=unit(as_float32(rng.standard_normal(self.aux.shape))))

    def with_tower(self, tower: PromptTower) -> FeaturePack:
        """Return the pack with the text tower of its encoder, for methods that learn prompts."""
        return replace(self, tower=tower)

    @classmethod
    def open(cls, folder: str | os.PathLike[str]) -> FeaturePack:
        """Open a pack. Its arrays stay on disk until they are read."""
        path = Path(folder)
        if not path.is_dir():
            raise PackError(f"no pack at {str(path)!r}: expected a folder with pack.json, clip.npy and text.npy.")
        head = read_head(path)
        pack = cls(
            name=head["name"],
            class_names=tuple(head["class_names"]),
            clip=read_array(path / "clip.npy"),
            text=read_array(path / "text.npy"),
            aux=None if head.get("aux") is None else read_array(path / "aux.npy"),
            labels=read_array(path / "labels.npy") if (path / "labels.npy").exists() else None,
            logit_scale=head.get("logit_scale", 100.0),
            clip_model=head["clip"].get("model", ""),
            aux_model=(head.get("aux") or {}).get("model", ""),
            prompts=head.get("prompts", ""),
            source=head.get("source", ""),
            licence=head.get("licence", ""),
            keys=read_keys(path / "keys.json"),
            provenance=head.get("provenance", {}),
            domains=read_array(path / "domains.npy") if (path / "domains.npy").exists() else None,
        )
        check_head(head, pack.clip, pack.aux, path)
        return pack

    def write(self, folder: str | os.PathLike[str]) -> None:
        """Write the pack as a new folder. After an error there is no folder."""
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
        } | ({"provenance": dict(self.provenance)} if self.provenance else {})
        with new_folder(path) as unfinished:
            for name in ARRAYS:
                array = getattr(self, name)
                if array is not None:
                    np.save(unfinished / f"{name}.npy", array)
            if self.keys:
                write_json(unfinished / "keys.json", self.keys)
            write_json(unfinished / "pack.json", head)


def check_pack(folder: str | os.PathLike[str]) -> Iterator[str]:
    """Read a whole pack and yield its problems.

    Args:
        folder: The pack.

    Yields:
        One sentence per problem; nothing if the pack is valid.

    Examples:
        >>> next(check_pack("nowhere"))
        "no pack at 'nowhere': expected a folder with pack.json, clip.npy and text.npy."
    """
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
    """Yield a sentence for each kind of invalid row in [N, D] or [N, V, D], with the first row of that kind."""
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
                index = [int(i) for i in np.argwhere(bad)[0]]
                position = f"image {start + index[0]}" + (f", view {index[1]}" if len(index) > 1 else "")
                first.setdefault(kind, position)
                count[kind] = count.get(kind, 0) + int(bad.sum())
    for kind, position in first.items():
        yield f"{name} has {kind}: first at {position}, {count[kind]} in all."


def _as_array(name: str, value: Any) -> NDArray[Any] | None:
    if value is None or isinstance(value, np.ndarray):
        return value
    try:
        return np.asarray(value)
    except (TypeError, ValueError, RuntimeError) as error:
        hint = "a tensor is written x.detach().float().cpu().numpy()"
        raise PackError(f"{name} must be a NumPy array; given {type(value).__name__} ({hint}).") from error


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
