"""The optional libraries that draw, and how to install them."""

from __future__ import annotations

from importlib.util import find_spec

from cosmic_tta.core.errors import InputError

LIBRARIES = ("matplotlib", "plotly", "scipy", "sklearn")
INSTALL = "pip install 'cosmic-tta[report]', in a clone pip install -e '.[report]'"


def can_draw() -> bool:
    """Return whether every library that draws is installed."""
    return all(find_spec(library) is not None for library in LIBRARIES)


def require(*libraries: str) -> None:
    """Raise InputError if a library is not installed; called before any work starts.

    Examples:
        >>> require()  # nothing is required
    """
    missing = [library for library in libraries if find_spec(library) is None]
    if missing:
        raise InputError(f"figures and reports need {', '.join(missing)}, not installed: {INSTALL}.")
