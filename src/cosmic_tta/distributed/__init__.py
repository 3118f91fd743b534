"""Sweeps, extractions and sessions on a Ray cluster (extra `ray`): the same results and files as on one machine.

Imports all packages below it. Only `cli` imports it. It is the only package that imports Ray, so the public names are
imported when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from cosmic_tta.core.errors import InputError, install_extra, missing_packages

if TYPE_CHECKING:
    from cosmic_tta.distributed.cluster import connect_cluster
    from cosmic_tta.distributed.extraction import RayEngine
    from cosmic_tta.distributed.remote_session import RemoteSession
    from cosmic_tta.distributed.serve_app import serve_on_ray
    from cosmic_tta.distributed.sweep import sweep_on_ray

__all__ = ["RayEngine", "RemoteSession", "connect_cluster", "require", "serve_on_ray", "sweep_on_ray"]

_MODULES = {
    "RayEngine": "extraction",
    "RemoteSession": "remote_session",
    "connect_cluster": "cluster",
    "serve_on_ray": "serve_app",
    "sweep_on_ray": "sweep",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    if name in _MODULES:
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def require() -> None:
    """Check that Ray is installed.

    Raises:
        InputError: Ray is missing; the message says how to install it.

    Examples:
        >>> from cosmic_tta.distributed import require
        >>> try:
        ...     require()
        ... except InputError as error:
        ...     assert "cosmic-tta[ray]" in str(error)
    """
    if find_spec("ray") is None:
        raise InputError(missing_packages("--engine ray needs", ["ray"], install_extra("ray")))
