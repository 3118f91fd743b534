"""Beyond one machine: sweeps, extractions and streams on Ray. The only room with ray (extra `ray`)."""

from __future__ import annotations

from importlib.util import find_spec

from cosmic_tta.errors import InputError


def require() -> None:
    """Refuse to go on without Ray, and say how it comes."""
    if find_spec("ray") is None:
        raise InputError(
            "--engine ray needs ray, not installed: pip install 'cosmic-tta[ray]', in a clone -e '.[ray]'."
        )
