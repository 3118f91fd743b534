"""`mini:`: the two embedded encoders, for trials without a download.

`mini:clip` encodes images and words of ten classes; `mini:dino` was trained on images alone. `tools/mini/train.py`
trained them on the training images of CIFAR-10. Their model card is `docs/research/mini.md`.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from cosmic_tta.core.errors import EncoderError, unknown_name
from cosmic_tta.encoders.base import Encoder, EncoderOptions
from cosmic_tta.encoders.onnx import load as load_onnx

if TYPE_CHECKING:
    from cosmic_tta.encoders.prompt_tower import PromptTokens, PromptTransformer

MODELS = ("clip", "dino")


def asset_folder(name: str) -> Path:
    """Return the folder of an embedded model."""
    return Path(str(files("cosmic_tta"))) / "encoders" / "assets" / name


def folder(name: str) -> Path:
    """Return the folder of an embedded encoder."""
    if name not in MODELS:
        raise unknown_name("embedded model", name, MODELS)
    return asset_folder(name)


def load_prompts(name: str, _: str | None) -> tuple[PromptTransformer, PromptTokens]:
    """Load the text tower as a torch module, to learn context vectors through it."""
    from cosmic_tta.encoders.mini_text import read

    if name != "clip":
        raise EncoderError(f"mini:{name} has no text tower; mini:clip has one.")
    return read(folder(name))


def load(name: str, weights: str | None, options: EncoderOptions) -> Encoder:
    """Load an embedded encoder; it needs onnxruntime alone."""
    return load_onnx(str(folder(name)), weights, options)
