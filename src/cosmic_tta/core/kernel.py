"""Choose the compiled kernel where it was built, else the plain path in NumPy, which defines every result.

The environment variable `COSMIC_TTA_KERNEL` decides: `off` takes the plain path, `on` raises an error without the
kernel, `auto` is the default.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

from cosmic_tta.core.errors import InputError


def _load(wanted: str) -> Any:
    if wanted == "off":
        return None
    try:
        return import_module("cosmic_tta.core._kernel")
    except ImportError:
        return None


WANTED = os.environ.get("COSMIC_TTA_KERNEL", "auto")
COMPILED: Any = _load(WANTED)  # the module, or None on the plain path


def check_path() -> None:
    """Raise an InputError if the variable has an unknown value, or asks for a kernel that was not built."""
    if WANTED not in ("auto", "on", "off"):
        raise InputError(f"COSMIC_TTA_KERNEL must be auto, on or off; given {WANTED!r}.")
    if WANTED == "on" and COMPILED is None:
        raise InputError(
            "COSMIC_TTA_KERNEL=on, but the kernel was not built here. "
            "Install a C compiler and the package again, or leave the variable unset."
        )


def path() -> str:
    """Return a description of the path in use."""
    check_path()
    return "compiled kernel" if COMPILED is not None else "plain path, in Python and NumPy"
