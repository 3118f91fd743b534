"""Which path runs: the compiled kernel where it was built, else the plain one, which defines what it does.

`COSMIC_TTA_KERNEL=off` asks for the plain path, `on` refuses to run without the kernel.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

from cosmic_tta.errors import InputError


def _load() -> Any:
    wanted = os.environ.get("COSMIC_TTA_KERNEL", "auto")
    if wanted not in ("auto", "on", "off"):
        raise InputError(f"COSMIC_TTA_KERNEL must be auto, on or off; given {wanted!r}.")
    if wanted == "off":
        return None
    try:
        return import_module("cosmic_tta._kernel")
    except ImportError as error:
        if wanted == "on":
            raise InputError(
                f"COSMIC_TTA_KERNEL=on, but the kernel was not built here ({error}). "
                "Install a C compiler and run `pip install --force-reinstall` again, or leave the variable unset."
            ) from error
        return None


COMPILED: Any = _load()  # the module, or None on the plain path


def path() -> str:
    """Name the path that runs, for people."""
    return "compiled kernel" if COMPILED is not None else "plain path, in Python and NumPy"
