"""Options that several commands have."""

from __future__ import annotations

from typing import Annotated

import typer

JsonFile = Annotated[
    str | None, typer.Option("--json", metavar="FILE", help="Write the result as JSON; - is standard output.")
]
