"""`cosmic train`, and what `cosmic eval` does for methods that were trained or learn through a text tower."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from cosmic_tta import checkpoints
from cosmic_tta.commands.options import JsonFile
from cosmic_tta.errors import InputError, unknown_name
from cosmic_tta.methods import LESSONS, METHODS, split_name
from cosmic_tta.packs import FeaturePack
from cosmic_tta.prompt_learning import OPENING, Learned
from cosmic_tta.terminal import STDOUT, counter, say, writable, write_json
from cosmic_tta.towers import wants_tower, with_tower
from cosmic_tta.training import Course, train

SUFFIX = ".safetensors"


def train_method(
    method: Annotated[str, typer.Argument(help=f"One of {', '.join(LESSONS)}.")],
    support: Annotated[Path, typer.Argument(metavar="SUPPORT", help="A pack of labelled training features.")],
    out: Annotated[Path, typer.Option(metavar="FILE.safetensors", help="The checkpoint to write.")],
    shots: Annotated[int | None, typer.Option(metavar="N", help="Shots of each class, drawn; all unless told.")] = None,
    epochs: Annotated[int | None, typer.Option(help="Passes over the shots; the method's own unless told.")] = None,
    rate: Annotated[float | None, typer.Option(help="Learning rate; the method's own unless told.")] = None,
    batch: Annotated[int | None, typer.Option(help="Shots in a step; the method's own unless told.")] = None,
    tokens: Annotated[int, typer.Option(help="Context vectors before the class name.")] = 4,
    words: Annotated[str, typer.Option(help="What the context begins as; '' draws it.")] = OPENING,
    class_specific: Annotated[
        bool, typer.Option("--class-specific", help="CoOp: a context for each class, which serves no other.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Of the shots, of their order and of what is drawn.")] = 0,
    tower: Annotated[
        str | None, typer.Option(metavar="FAMILY:MODEL", help="The text tower; the pack's own unless told.")
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")] = "auto",
    dtype: Annotated[str, typer.Option(help="auto, float32, or mixed precision: float16, bfloat16.")] = "auto",
    json_file: JsonFile = None,
) -> None:
    """Train prompts or cache keys on a few labelled features. Run it again if it was stopped: it goes on."""
    if method not in LESSONS:
        raise unknown_name("method that is trained", method, LESSONS)
    if out.suffix != SUFFIX:
        raise InputError(f"--out must end in {SUFFIX}; given {str(out)!r}.")
    if out.exists():
        raise InputError(f"{str(out)!r} is there already; remove it or choose another name.")
    course = Course(shots, epochs, rate, batch, tokens, words, class_specific, seed)
    writable(out)
    writable(json_file)
    pack = FeaturePack.open(support)
    shown = pack.support()
    if wants_tower(METHODS[method]):
        pack = with_tower(pack, tower, device=device, dtype=dtype)
    partial = out.with_name(f".{out.name}.partial")
    with counter(f"training {method}", "epochs") as count:
        for epoch in train(method, pack.task(), shown, course, partial=partial):
            told = f"loss {epoch.loss:.3f}, {epoch.accuracy:.1%} of the shots" if epoch.loss == epoch.loss else ""
            count(epoch.done, epoch.total, told)
    checkpoints.write(out, epoch.learned)
    if json_file != STDOUT:
        if told:
            say(f"{method}, {epoch.learned.told['shots']} shots of each class, {epoch.total} epochs: {told}.")
        say(f"Next: cosmic eval PACK --method {method} --checkpoint {out}")
    write_json({"checkpoint": str(out), "method": method, **epoch.learned.told}, json_file)


def with_towers(packs: Sequence[FeaturePack], specs: Sequence[str], tower: str | None) -> list[FeaturePack]:
    """Attach the text towers of the packs' encoders, if a method asks for them."""
    takers = [spec for spec in specs if wants_tower(split_name(spec)[0])]
    if tower is not None and not takers:
        raise InputError(f"--tower is for methods that learn prompts; {', '.join(specs)} would not use it.")
    return [with_tower(pack, tower) for pack in packs] if takers else list(packs)


def trained_for(files: Sequence[Path], specs: Sequence[str], packs: Sequence[FeaturePack]) -> dict[str, Learned]:
    """Give each checkpoint to the method that it was trained for; none is judged on its own shots."""
    given = {spec: checkpoints.read(file) for spec, file in checkpoints.taken_by(files, specs).items()}
    for learned in given.values():
        for pack in packs:
            checkpoints.refuse_own_shots(learned, pack)
    return given
