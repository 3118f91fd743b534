"""Adaptation streams over HTTP. The only room with FastAPI, uvicorn and prometheus_client (extra `serve`)."""

from __future__ import annotations

from importlib.util import find_spec

from cosmic_tta.errors import InputError

PACKAGES = {"fastapi": "fastapi", "uvicorn": "uvicorn", "python_multipart": "python-multipart"}
PACKAGES |= {"prometheus_client": "prometheus-client"}


def require() -> None:
    """Refuse to go on without the packages that the service needs, and say how they come."""
    missing = [name for module, name in PACKAGES.items() if find_spec(module) is None]
    if missing:
        raise InputError(
            f"the service needs {', '.join(missing)}, not installed: pip install 'cosmic-tta[serve]', "
            "in a clone -e '.[serve]'."
        )
