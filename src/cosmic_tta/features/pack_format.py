"""The files of a feature pack, format 1: reading, writing, and the checks of `pack.json`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosmic_tta.core.errors import PackError

FORMAT = 1
KNOWN_KEYS = (
    "format", "name", "class_names", "logit_scale", "clip", "aux", "prompts", "source", "licence", "provenance",
)  # fmt: skip


def read_head(path: Path) -> dict[str, Any]:
    """Read `pack.json` of the pack in a folder, and check its format, its keys and the types of its values."""
    file = path / "pack.json"
    try:
        head = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise PackError(
            f"{str(path)!r} is not a feature pack: it has no pack.json. `cosmic extract` makes a pack of images."
        ) from error
    except (OSError, ValueError) as error:
        raise PackError(f"{str(file)!r} cannot be read as JSON: {error}") from error
    if not isinstance(head, dict) or head.get("format") != FORMAT:
        given = head.get("format") if isinstance(head, dict) else None
        raise PackError(f"{str(file)!r} has the format {given!r}; this version reads format {FORMAT}.")
    unknown = [key for key in head if key not in KNOWN_KEYS]
    if unknown:  # another version may keep under another name what a figure or a report relies on
        raise PackError(
            f"{str(file)!r} has keys that this version does not know: {', '.join(map(repr, unknown))}; "
            "make the pack again with this version."
        )
    wanted = {"name": str, "class_names": list, "clip": dict}
    for key, kind in wanted.items():
        if not isinstance(head.get(key), kind):
            raise PackError(f"{str(file)!r}: {key!r} must be a {kind.__name__}; given {head.get(key)!r:.60}.")
    if not isinstance(head.get("aux"), (dict, type(None))):
        raise PackError(f"{str(file)!r}: 'aux' must be a dict or null; given {head['aux']!r:.60}.")
    return head


def check_head(head: dict[str, Any], clip: NDArray[Any], aux: NDArray[Any] | None, path: Path) -> None:
    """Refuse a pack.json that contradicts the arrays beside it."""
    if aux is None and (path / "aux.npy").exists():
        raise PackError(f"{str(path)!r}: aux.npy is there, but pack.json says 'aux': null; remove one of them.")
    stated = {"clip dim": head["clip"].get("dim"), "clip views": head["clip"].get("views")}
    real = {"clip dim": clip.shape[2], "clip views": clip.shape[1]}
    if aux is not None:
        stated["aux dim"], real["aux dim"] = head["aux"].get("dim"), aux.shape[1]
    for key, value in stated.items():
        if value is not None and value != real[key]:
            raise PackError(f"{str(path)!r}: pack.json says {key} {value!r}, but the array has {real[key]}.")


def write_json(file: Path, value: Any) -> None:
    """Write a JSON file."""
    text = json.dumps(value, indent=1, ensure_ascii=False)
    # A file name that is not UTF-8 has lone surrogates, which UTF-8 cannot encode; escaped, they are valid JSON.
    file.write_text(text, encoding="utf-8", errors="backslashreplace")


def read_keys(file: Path) -> tuple[str, ...]:
    """Read the names of the images; a pack without the file has none."""
    if not file.exists():
        return ()
    try:
        keys = json.loads(file.read_text(encoding="utf-8", errors="surrogateescape"))
    except ValueError as error:
        raise PackError(f"{str(file)!r} cannot be read as JSON: {error}") from error
    if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
        raise PackError(f"{str(file)!r} must hold a list of names.")
    return tuple(keys)


def read_array(file: Path) -> NDArray[Any]:
    """Map an array into memory."""
    try:
        array: NDArray[Any] = np.load(file, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError as error:
        raise PackError(f"{str(file)!r} is missing, although pack.json names it.") from error
    except (OSError, ValueError, EOFError) as error:
        raise PackError(f"{str(file)!r} is truncated or not a .npy file: {error}") from error
    return array
