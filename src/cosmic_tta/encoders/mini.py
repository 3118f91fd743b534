"""`mini:`: the pair that ships with the package, to try the system with; nothing to download.

`mini:clip` knows pictures and words of ten classes, `mini:dino` learned from pictures alone. They were trained on the
training photographs of CIFAR-10 by `tools/mini/train.py`; the model card lies beside them.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from cosmic_tta.encoders.base import Encoder, Options
from cosmic_tta.encoders.onnx import load as load_onnx
from cosmic_tta.errors import EncoderError, unknown_name

if TYPE_CHECKING:
    from cosmic_tta.encoders.prompt_tower import PromptBody, Wording

MODELS = ("clip", "dino")


def home(name: str) -> Path:
    """Return where an embedded model lies."""
    return Path(str(files("cosmic_tta"))) / "mini" / name


def folder(name: str) -> Path:
    """Return where one of the pair lies."""
    if name not in MODELS:
        raise unknown_name("embedded model", name, MODELS)
    return home(name)


def load_prompts(name: str, _: str | None) -> tuple[PromptBody, Wording]:
    """Load the text tower once more, as a torch module."""
    from cosmic_tta.encoders.mini_text import read

    if name != "clip":
        raise EncoderError(f"mini:{name} has no text tower; mini:clip has one.")
    return read(folder(name))


def load(name: str, weights: str | None, options: Options) -> Encoder:
    """Load one of the pair; it runs on any machine."""
    return load_onnx(str(folder(name)), weights, options)
