"""Options that several commands have."""

from __future__ import annotations

from typing import Annotated

import typer

from cosmic_tta.errors import InputError, unknown_name

JsonFile = Annotated[
    str | None, typer.Option("--json", metavar="FILE", help="Write the result as JSON; - is standard output.")
]

Engine = Annotated[
    str, typer.Option("--engine", metavar="ENGINE", help="local: this machine; ray: a Ray cluster, docs/scale.md.")
]
Address = Annotated[
    str | None,
    typer.Option("--address", metavar="ADDRESS", help="Of the Ray cluster, or auto; one of this machine unless told."),
]
ENGINES = ("local", "ray")


def on_ray(engine: str, address: str | None) -> bool:
    """Tell whether Ray is to do the work; refuse what is no engine, or what only Ray could do."""
    if engine not in ENGINES:
        raise unknown_name("engine", engine, ENGINES)
    if engine != "ray" and address is not None:
        raise InputError(f"--address is for --engine ray; given --engine {engine} --address {address}.")
    if engine == "ray":
        from cosmic_tta.scale import require

        require()
    return engine == "ray"
