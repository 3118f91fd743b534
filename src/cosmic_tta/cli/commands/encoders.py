"""`cosmic encoders` and `cosmic export-onnx`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cosmic_tta.cli.options import JsonFile
from cosmic_tta.cli.terminal import STDOUT, print_table, refuse_unwritable, say, write_json
from cosmic_tta.core.errors import EncoderError, install_extra, missing_packages
from cosmic_tta.encoders import FAMILIES, EncoderFamily

EXPORTER = ("torch", "onnx", "onnxscript", "onnxruntime")


def encoders(json_file: JsonFile = None) -> None:
    """List the families of encoders, how to name a model, and which can run here."""
    refuse_unwritable(json_file)
    if json_file != STDOUT:
        rows = [
            (family.pattern, "no" if family.missing else "yes", f"{family.summary}; needs {', '.join(family.packages)}")
            for family in FAMILIES.values()
        ]
        print_table(("name", "runs here", "what it is"), rows)
        say(f"For example: {', '.join(family.example for family in FAMILIES.values())}")
        for family in FAMILIES.values():
            if family.missing:
                say(f"{family.name} lacks {', '.join(family.missing)}: {family.install}.")
    described = [
        {
            "family": family.name,
            "pattern": family.pattern,
            "example": family.example,
            "needs": list(family.packages),
            "missing": list(family.missing),
            "runs": not family.missing,
            "install": family.install,
            "summary": family.summary,
        }
        for family in FAMILIES.values()
    ]
    write_json(described, json_file)


def export_onnx(
    spec: Annotated[str, typer.Argument(metavar="SPEC", help="An encoder that torch runs; see `cosmic encoders`.")],
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="The folder to create; its encoder is onnx:FOLDER.")],
    int8: Annotated[bool, typer.Option("--int8", help="Quantise the matrices: smaller, and faster for ViTs.")] = False,
    opset: Annotated[int, typer.Option(metavar="N", help="Version of ONNX's operators.")] = 20,
    json_file: JsonFile = None,
) -> None:
    """Export an encoder to ONNX, which runs without torch, and compare it with the original."""
    refuse_unwritable(json_file)
    absent = EncoderFamily("export-onnx", "", "", EXPORTER, install_extra("torch"), "").missing
    if absent:
        raise EncoderError(missing_packages("export-onnx needs", absent, install_extra("torch")))
    from cosmic_tta.encoders import onnx_export

    made = onnx_export.export_onnx(spec, out, int8=int8, opset=opset)
    if json_file != STDOUT:
        towers = {"images": made.image, "sentences": made.text}
        rows = [(name, f"{tower.mean:.6f}", f"{tower.worst:.6f}") for name, tower in towers.items() if tower]
        print_table(("tower", "mean cosine to torch", "worst"), rows, f"{made.source} in {made.precision}")
        say(f"Written: {made.folder}, {made.megabytes:g} MB. Use it as onnx:{made.folder}. {made.remark}".rstrip())
    write_json(made.to_dict(), json_file)
