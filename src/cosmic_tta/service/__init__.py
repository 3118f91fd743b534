"""Adaptation streams over HTTP: the server (extra `serve`), its dashboard, and a client.

Imports `sessions`, `classifier` and the packages below them. `distributed` and `cli` import it. It is the only
package that imports FastAPI, uvicorn and prometheus_client. The client needs the standard library alone, so the
public names are imported when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from cosmic_tta.core.errors import InputError, install_extra, missing_packages

if TYPE_CHECKING:
    from cosmic_tta.service.app import make_app
    from cosmic_tta.service.client import Client, ServiceError, StreamClient
    from cosmic_tta.service.settings import ServiceSettings

__all__ = ["Client", "ServiceError", "ServiceSettings", "StreamClient", "make_app"]

_MODULES = {
    "Client": "client",
    "ServiceError": "client",
    "ServiceSettings": "settings",
    "StreamClient": "client",
    "make_app": "app",
}
_PACKAGES = {  # module → package that installs it
    "fastapi": "fastapi",
    "uvicorn": "uvicorn",
    "python_multipart": "python-multipart",
    "prometheus_client": "prometheus-client",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    if name in _MODULES:
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def require_packages() -> None:
    """Check that the packages of the extra `serve` are installed.

    Raises:
        InputError: a package is missing; the message says how to install it.
    """
    missing = [package for module, package in _PACKAGES.items() if find_spec(module) is None]
    if missing:
        raise InputError(missing_packages("the service needs", missing, install_extra("serve")))
