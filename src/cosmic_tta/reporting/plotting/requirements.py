"""The optional libraries that draw, and how to install them."""

from __future__ import annotations

from importlib.util import find_spec

from cosmic_tta.core.errors import InputError, install_extra, missing_packages

LIBRARIES = ("matplotlib", "plotly", "scipy", "sklearn")
INSTALL = install_extra("report")


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
        raise InputError(missing_packages("figures and reports need", missing, INSTALL))
