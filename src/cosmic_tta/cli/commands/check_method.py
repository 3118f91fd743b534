"""`cosmic check-method`."""

from __future__ import annotations

from typing import Annotated

import typer

from cosmic_tta.cli.options import JsonFile
from cosmic_tta.cli.terminal import STDOUT, say, write_json
from cosmic_tta.core.errors import EncoderError
from cosmic_tta.evaluation.method_checks import CHECKS, ContractError
from cosmic_tta.evaluation.method_factory import factory_of


def check_method(
    name: Annotated[str, typer.Argument(metavar="METHOD", help="A registered method, name or name@preset.")],
    json_file: JsonFile = None,
) -> None:
    """Run the checks that every method must pass; the exit code is 1 if one fails."""
    make = factory_of(name)
    rows = []
    for check, function in CHECKS.items():
        problem = ""
        try:
            function(make)
        except EncoderError:  # what the check needs is not installed
            raise
        except ContractError as error:
            problem = str(error)
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
        rows.append({"check": check, "passed": not problem, "problem": problem})
        if json_file != STDOUT:
            say(f"{'failed' if problem else 'passed'}  {check}{': ' + problem if problem else ''}")
    write_json(rows, json_file)
    if not all(row["passed"] for row in rows):
        raise typer.Exit(1)
