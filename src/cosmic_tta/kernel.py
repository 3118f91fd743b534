"""Which path runs: the compiled kernel where it was built, else the plain one, which defines what it does.

`COSMIC_TTA_KERNEL=off` asks for the plain path, `on` refuses to run without the kernel.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

from cosmic_tta.errors import InputError


def _load(wanted: str) -> Any:
    if wanted == "off":
        return None
    try:
        return import_module("cosmic_tta._kernel")
    except ImportError:
        return None


WANTED = os.environ.get("COSMIC_TTA_KERNEL", "auto")
COMPILED: Any = _load(WANTED)  # the module, or None on the plain path


def check_path() -> None:
    """Refuse to go on where the variable asks for what there is not."""
    if WANTED not in ("auto", "on", "off"):
        raise InputError(f"COSMIC_TTA_KERNEL must be auto, on or off; given {WANTED!r}.")
    if WANTED == "on" and COMPILED is None:
        raise InputError(
            "COSMIC_TTA_KERNEL=on, but the kernel was not built here. "
            "Install a C compiler and the package again, or leave the variable unset."
        )


def path() -> str:
    """Name the path that runs, for people."""
    check_path()
    return "compiled kernel" if COMPILED is not None else "plain path, in Python and NumPy"
