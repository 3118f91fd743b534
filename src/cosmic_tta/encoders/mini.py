"""`mini:`: the pair that ships with the package, to try the system with; nothing to download.

`mini:clip` knows pictures and words of ten classes, `mini:dino` learned from pictures alone. They were trained on the
training photographs of CIFAR-10 by `tools/mini/train.py`; the model card lies beside them.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from cosmic_tta.encoders.base import Encoder, Options
from cosmic_tta.encoders.onnx import load as load_onnx
from cosmic_tta.errors import unknown_name

MODELS = ("clip", "dino")


def folder(name: str) -> Path:
    """Return where an embedded model lies."""
    if name not in MODELS:
        raise unknown_name("embedded model", name, MODELS)
    return Path(str(files("cosmic_tta"))) / "mini" / name


def load(name: str, weights: str | None, options: Options) -> Encoder:
    """Load one of the pair; it runs on any machine."""
    return load_onnx(str(folder(name)), weights, options)
