"""`cosmic methods` and `cosmic check`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cosmic_tta import METHODS
from cosmic_tta.cli.options import JsonFile
from cosmic_tta.cli.terminal import STDOUT, complain, print_table, say, write_json
from cosmic_tta.core import parameters
from cosmic_tta.core.kernel import path
from cosmic_tta.evaluation.report import software
from cosmic_tta.features.pack import FeaturePack, check_pack
from cosmic_tta.methods import plugin_failures


def methods(json_file: JsonFile = None) -> None:
    """List the methods, their presets and parameters."""
    if json_file != STDOUT:
        rows = [
            (name, ", ".join(kind.presets), ", ".join(kind.needs) or "–", _summary(kind))
            for name, kind in METHODS.items()
        ]
        print_table(("method", "presets", "needs", "what it does"), rows)
        say("The parameters of each: cosmic methods --json")
        for failure in plugin_failures():
            say(str(failure))
    described = [
        {
            "name": name,
            "presets": list(kind.presets),
            "preset_values": {preset: dict(values) for preset, values in kind.presets.items()},
            "params": parameters.describe(kind),
            "needs": list(kind.needs),
            "summary": _summary(kind),
        }
        for name, kind in METHODS.items()
    ]
    write_json(described, json_file)


def _summary(kind: type) -> str:
    return (kind.__doc__ or "").split("\n", 1)[0]


def check(
    packs: Annotated[list[Path] | None, typer.Argument(metavar="[PACK...]", help="Folders of feature packs.")] = None,
    json_file: JsonFile = None,
) -> None:
    """Show how the engine runs here. Read feature packs completely and report what is wrong with them."""
    if json_file != STDOUT:
        versions = ", ".join(f"{name} {version}" for name, version in software().items() if name != "path")
        say(f"The engine runs on its {path()} ({versions}).")
    packs = packs or []
    found = {str(folder): list(check_pack(folder)) for folder in packs}
    for folder, problems in found.items():
        if not problems and json_file != STDOUT:
            say(f"{folder}: valid; {FeaturePack.open(folder).summary}")
        for problem in problems:
            complain(f"{folder}: {problem}")
    write_json([{"pack": folder, "problems": problems} for folder, problems in found.items()], json_file)
    if any(found.values()):
        raise typer.Exit(2)
