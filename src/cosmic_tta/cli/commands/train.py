"""`cosmic train`: few-shot training of prompts or cache keys."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cosmic_tta.cli.options import Device, JsonFile
from cosmic_tta.cli.terminal import STDOUT, counter, refuse_unwritable, say, write_json
from cosmic_tta.core.errors import InputError, unknown_name
from cosmic_tta.features.pack import FeaturePack
from cosmic_tta.features.text_towers import attach_tower, needs_prompt_tower
from cosmic_tta.methods import METHODS, OBJECTIVES
from cosmic_tta.methods.components.training import OPENING
from cosmic_tta.training import checkpoint_file
from cosmic_tta.training.trainer import EpochResult, TrainingConfig, train

SUFFIX = ".safetensors"

MethodName = Annotated[
    str, typer.Argument(metavar="METHOD", help="A method that is trained: coop, cocoop, tip_adapter_f, or a plug-in.")
]
SupportPack = Annotated[Path, typer.Argument(metavar="SUPPORT", help="A pack of labelled training features.")]
Out = Annotated[Path, typer.Option(metavar="FILE.safetensors", help="The checkpoint to write.")]
Shots = Annotated[int | None, typer.Option(metavar="N", help="Shots per class, drawn by the seed. Default: all.")]
Epochs = Annotated[int | None, typer.Option(help="Passes over the shots. Default: the method's own.")]
Rate = Annotated[float | None, typer.Option(help="Learning rate. Default: the method's own.")]
Batch = Annotated[int | None, typer.Option(help="Shots per step. Default: the method's own.")]
Tokens = Annotated[int, typer.Option(help="Context vectors before the class name.")]
Words = Annotated[str, typer.Option(help="Words that the context starts from; '' starts from random vectors.")]
ClassSpecific = Annotated[
    bool, typer.Option("--class-specific", help="CoOp: one context per class, for these classes only.")
]
Seed = Annotated[int, typer.Option(help="Seed of the shots, their order and random vectors.")]
Tower = Annotated[str | None, typer.Option(metavar="FAMILY:MODEL", help="The text tower. Default: that of the pack.")]
Dtype = Annotated[str, typer.Option(help="auto, float32, or mixed precision: float16, bfloat16.")]


def train_method(
    method: MethodName,
    support: SupportPack,
    out: Out,
    shots: Shots = None,
    epochs: Epochs = None,
    rate: Rate = None,
    batch: Batch = None,
    tokens: Tokens = 4,
    words: Words = OPENING,
    class_specific: ClassSpecific = False,
    seed: Seed = 0,
    tower: Tower = None,
    device: Device = "auto",
    dtype: Dtype = "auto",
    json_file: JsonFile = None,
) -> None:
    """Train prompts or cache keys on a few labelled features. If it was stopped, run it again: it continues."""
    if method not in OBJECTIVES:
        raise unknown_name("method that is trained", method, OBJECTIVES)
    if out.suffix != SUFFIX:
        raise InputError(f"--out must end in {SUFFIX}; given {str(out)!r}.")
    if out.exists():
        raise InputError(f"{str(out)!r} exists already; remove it or choose another name.")
    config = TrainingConfig(shots, epochs, rate, batch, tokens, words, class_specific, seed)
    refuse_unwritable(out)
    refuse_unwritable(json_file)
    pack = FeaturePack.open(support)
    if needs_prompt_tower(METHODS[method]):
        pack = attach_tower(pack, tower, device=device, dtype=dtype)
    last = _train(method, pack, config, out)
    checkpoint_file.write(out, last.checkpoint)
    if json_file != STDOUT:
        result = _describe(last)
        if result:
            say(f"{method}, {last.checkpoint.metadata['shots']} shots per class, {last.total} epochs: {result}.")
        say(f"Next: cosmic eval PACK --method {method} --checkpoint {out}")
    write_json({"checkpoint": str(out), "method": method, **last.checkpoint.metadata}, json_file)


def _train(method: str, pack: FeaturePack, config: TrainingConfig, out: Path) -> EpochResult:
    """Train to the last epoch, with progress; an unfinished training is kept beside the checkpoint."""
    unfinished = out.with_name(f".{out.name}.partial")
    with counter(f"training {method}", "epochs") as count:
        for epoch in train(method, pack.task(), pack.support(), config, partial=unfinished):
            count(epoch.done, epoch.total, _describe(epoch))
    return epoch


def _describe(epoch: EpochResult) -> str:
    if epoch.loss != epoch.loss:  # NaN: the training was complete already
        return ""
    return f"loss {epoch.loss:.3f}, {epoch.accuracy:.1%} of the shots"
