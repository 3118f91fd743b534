"""What draws, and how to get it."""

from __future__ import annotations

from importlib.util import find_spec

from cosmic_tta.errors import InputError

DRAWS = ("matplotlib", "plotly", "scipy", "sklearn")
INSTALL = "pip install 'cosmic-tta[report]', in a clone pip install -e '.[report]'"


def can_draw() -> bool:
    """Whether all that draws is installed."""
    return all(find_spec(package) is not None for package in DRAWS)


def require(*packages: str) -> None:
    """Refuse, before any work, to draw without what draws."""
    missing = [package for package in packages if find_spec(package) is None]
    if missing:
        raise InputError(f"figures and reports need {', '.join(missing)}, not installed: {INSTALL}.")
