"""A grid: methods × parameters × packs × orders × auxiliary kinds × seeds, from a TOML file, as a list of jobs."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

from cosmic_tta.checkpoints import taken_by
from cosmic_tta.errors import CosmicError, InputError, ParameterError, no_twin, unknown_name
from cosmic_tta.jobs import Job, fingerprint, open_pack
from cosmic_tta.methods import split_name
from cosmic_tta.packs import AUX_KINDS
from cosmic_tta.parameters import describe, known_parameter
from cosmic_tta.streams import check_stream

KEYS = ("methods", "packs", "orders", "aux", "seeds", "limit", "support", "checkpoints", "tower", "params")
SEEDLESS = ("given", "none")  # auxiliary features that are the same for every seed


@dataclass(frozen=True)
class Grid:
    """What to cross. Packs are absolute paths."""

    methods: tuple[str, ...]
    packs: tuple[str, ...]
    orders: tuple[str, ...] = ("shuffle",)
    aux: tuple[str, ...] = ("given",)
    seeds: tuple[int, ...] = (0,)
    limit: int | None = None
    support: str | None = None
    checkpoints: Mapping[str, str] | None = None  # by method, files of `cosmic train`
    tower: str | None = None
    params: Mapping[str, Mapping[str, tuple[Any, ...]]] | None = None  # by method, each parameter's values

    def jobs(self) -> list[Job]:
        """Return every job once, checked: nothing is run before all of them can be."""
        found: dict[str, Job] = {}
        for pack, spec in product(self.packs, self.methods):
            base = Job(spec, (), pack, **self._given(spec), limit=self.limit)
            for parameters, order in product(self._combinations(spec), self.orders):
                replace(base, parameters=parameters, order=order, seed=self.seeds[0]).check()
                for aux in self.aux:
                    for seed in self._seeds(order, aux):
                        job = replace(base, parameters=parameters, order=order, aux=aux, seed=seed)
                        found.setdefault(job.digest, job)
        return list(found.values())

    def _given(self, spec: str) -> dict[str, Any]:
        """Return what a method takes beside its parameters."""
        needs = split_name(spec)[0].needs
        given = {"support": self.support, "tower": self.tower, "checkpoint": (self.checkpoints or {}).get(spec)}
        return {name: value for name, value in given.items() if name in needs}

    def _combinations(self, spec: str) -> Iterator[tuple[tuple[str, Any], ...]]:
        kind, preset = split_name(spec)
        params = self.params or {}
        own = dict(params.get(kind.name, {})) | dict(params.get(f"{kind.name}@{preset}", {}))
        names = sorted(own)
        for chosen in product(*(own[name] for name in names)):
            yield tuple(zip(names, chosen, strict=True))

    def _seeds(self, order: str, aux: str) -> Sequence[int]:
        """Return the seeds that differ: in the given order nothing is drawn."""
        return self.seeds[:1] if order == "given" and aux in SEEDLESS else self.seeds


def read_grid(file: Path) -> Grid:
    """Read and check a grid; packs are named relative to it."""
    try:
        told = tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise InputError(f"no grid at {str(file)!r}; docs/sweeps.md shows one.") from error
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"{str(file)!r} cannot be read as TOML: {error}") from error
    try:
        return _checked(told, file.parent)
    except CosmicError as error:
        raise type(error)(f"{str(file)!r}: {error}") from error


def _checked(told: Mapping[str, Any], here: Path) -> Grid:
    for key in told:
        if key not in KEYS:
            raise unknown_name("key of a grid", key, KEYS)
    methods = _texts(told, "methods", None)
    for spec in methods:
        split_name(spec)
    full = [f"{kind.name}@{preset}" for kind, preset in map(split_name, methods)]
    no_twin("methods", full)
    folders = [str((here / name).resolve()) for name in _texts(told, "packs", None)]
    no_twin("packs", folders)
    for folder in folders:
        open_pack(folder)
    names = [open_pack(folder).name for folder in folders]
    no_twin("packs of the name", names)
    orders, aux = _texts(told, "orders", ("shuffle",)), _texts(told, "aux", ("given",))
    for kind_of_aux in aux:
        if kind_of_aux not in AUX_KINDS:
            raise unknown_name("kind of auxiliary features", kind_of_aux, AUX_KINDS)
    seeds, limit = _seeds(told.get("seeds", [0])), told.get("limit")
    if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool) or limit < 1):
        raise InputError(f"limit must be a whole number, at least 1; given {limit!r}.")
    for order, folder, seed in product(orders, folders, seeds):
        pack = open_pack(folder)
        check_stream(order, pack, seed, limit)
    support = _support(told.get("support"), here, folders, methods)
    learned = _texts(told, "checkpoints", ()) if "checkpoints" in told else ()
    taken = taken_by([here / name for name in learned], methods)
    tower, params = _tower(told.get("tower"), methods), _params(told.get("params", {}), full)
    return Grid(methods, tuple(folders), orders, aux, seeds, limit, support, taken, tower, params)


def _texts(told: Mapping[str, Any], key: str, default: tuple[str, ...] | None) -> tuple[str, ...]:
    found = told.get(key, default)
    found = [found] if isinstance(found, str) else found
    if not found or not isinstance(found, (list, tuple)) or not all(isinstance(one, str) for one in found):
        raise InputError(f"{key} must be a list of names, at least one; given {found!r}.")
    no_twin(key, list(found))
    return tuple(found)


def _seeds(found: Any) -> tuple[int, ...]:
    found = [found] if isinstance(found, int) else found
    whole = isinstance(found, list) and all(isinstance(one, int) and not isinstance(one, bool) for one in found)
    if not found or not whole:
        raise InputError(f"seeds must be a list of whole numbers, at least one; given {found!r}.")
    no_twin("seeds", list(map(str, found)))
    return tuple(found)


def _support(found: Any, here: Path, packs: Sequence[str], methods: Sequence[str]) -> str | None:
    takers = [spec for spec in methods if "support" in split_name(spec)[0].needs]
    if found is None:
        if takers:
            raise InputError(f"{', '.join(takers)} needs labelled training features: support = 'PACK'.")
        return None
    if not isinstance(found, str) or not takers:
        raise InputError(f"support names a pack for few-shot methods; {', '.join(methods)} would not use {found!r}.")
    folder = str((here / found).resolve())
    if fingerprint(folder) in map(fingerprint, packs):
        raise InputError("support must not be a pack that is evaluated: its labels would be given away.")
    return folder


def _tower(found: Any, methods: Sequence[str]) -> str | None:
    takers = [spec for spec in methods if "tower" in split_name(spec)[0].needs]
    if found is not None and (not isinstance(found, str) or not takers):
        raise InputError(
            f"tower names an encoder for methods that learn prompts; {', '.join(methods)} would not use it."
        )
    return found


def _params(found: Any, methods: Sequence[str]) -> dict[str, dict[str, tuple[Any, ...]]]:
    """Check [params.METHOD] tables; a list is several values, except where one value is a list itself."""
    if not isinstance(found, dict) or not all(isinstance(table, dict) for table in found.values()):
        raise InputError("params takes a table a method: [params.cosmic], then shots = [4, 8].")
    checked: dict[str, dict[str, tuple[Any, ...]]] = {}
    for spec, table in found.items():
        kind, preset = split_name(spec)
        name = f"{kind.name}@{preset}" if "@" in spec else kind.name
        if not any(one == name or one.split("@")[0] == name for one in methods):
            raise InputError(f"params.{spec}: the grid runs no {spec}; it runs {', '.join(methods)}.")
        checked[name] = {}
        for key, value in table.items():
            known_parameter(kind, key)
            many = describe(kind)[key]["type"].endswith("numbers")
            several = isinstance(value, list) and (not many or all(isinstance(one, list) for one in value))
            chosen = [tuple(one) if isinstance(one, list) else one for one in (value if several else [value])]
            if not chosen:
                raise ParameterError(f"params.{spec}.{key} has no values.")
            checked[name][key] = tuple(chosen)
    return checked
