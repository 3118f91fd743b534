"""Encoders behind one protocol, known by name: `family:model[,weights]`.

A family's library is imported when an encoder of it is made, not before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from cosmic_tta.core import TextTower
from cosmic_tta.encoders.base import DEVICES, DTYPES, KINDS, ClipEncoder, Encoder, Options, Tokens
from cosmic_tta.errors import CosmicError, EncoderError, InputError, unknown_name

__all__ = [
    "FAMILIES",
    "ClipEncoder",
    "Encoder",
    "Family",
    "Tokens",
    "auto_batch",
    "make_clip",
    "make_encoder",
    "make_tower",
]

BATCHES = {"cpu": 64, "cuda": 256, "mps": 128}
TORCH = "pip install 'cosmic-tta[torch]', in a clone -e '.[torch]' (we test with torch==2.13.0)"


@dataclass(frozen=True)
class Family:
    """One way to run encoders: what it reads, what it needs."""

    name: str
    pattern: str
    example: str
    packages: tuple[str, ...]
    install: str
    summary: str
    weights: bool = False  # the last comma of the name sets off which weights
    learning: tuple[str, ...] = ()  # the packages that its text tower needs for gradients; none: they do not pass

    @property
    def missing(self) -> tuple[str, ...]:
        """The packages that it needs and that are not installed."""
        return tuple(package for package in self.packages if find_spec(package) is None)

    def load(self, model: str, weights: str | None, options: Options) -> Encoder:
        """Import the family's module and load an encoder, or say what has to be installed."""
        if self.missing:
            raise EncoderError(f"{self.name}: encoders need {', '.join(self.missing)}, not installed: {self.install}.")
        encoder: Encoder = self.module().load(model, weights, options)
        return encoder

    def module(self) -> Any:
        """Import the family's module."""
        try:
            return import_module(f"cosmic_tta.encoders.{self.name.replace('-', '_')}")
        except (ImportError, RuntimeError, OSError) as error:
            raise EncoderError(
                f"{self.name}: encoders cannot run here: {error}. Install anew: {self.install}."
            ) from error


FAMILIES: Mapping[str, Family] = {
    family.name: family
    for family in (
        Family(
            "hf",
            "hf:NAME[,REVISION] or FOLDER",
            "hf:openai/clip-vit-base-patch16",
            ("torch", "transformers"),
            TORCH,
            "CLIP, SigLIP, DINOv2 and DINOv3 ViTs by transformers, from the hub's cache or a folder",
            weights=True,
            learning=("torch", "transformers"),
        ),
        Family(
            "clip-resnet",
            "clip-resnet:FILE or FOLDER",
            "clip-resnet:RN50.pt",
            ("torch", "safetensors"),
            TORCH,
            "CLIP's modified ResNets (RN50, RN101, RN50x4, ...) from the published files",
            learning=("torch", "safetensors"),
        ),
        Family(
            "open_clip",
            "open_clip:MODEL[,WEIGHTS]",
            "open_clip:ViT-B-16,openai",
            ("torch", "torchvision", "open_clip"),
            "pip install 'cosmic-tta[open_clip]', with a torchvision that fits your torch",
            "what open_clip loads",
            weights=True,
            learning=("torch", "torchvision", "open_clip"),
        ),
        Family(
            "mini",
            "mini:clip or mini:dino",
            "mini:clip",
            ("onnxruntime",),
            "pip install onnxruntime",
            "the small pair that ships with the package: ten classes, to try the system with",
            learning=("torch", "onnx"),
        ),
        Family(
            "onnx",
            "onnx:FOLDER",
            "onnx:clip-b16-int8",
            ("onnxruntime",),
            "pip install onnxruntime",
            "what `cosmic export-onnx` wrote",
        ),
    )
}


def make_encoder(
    spec: str, *, device: str = "auto", dtype: str = "auto", kind: str | None = None, threads: int | None = None
) -> Encoder:
    """Make an encoder by name, such as `hf:openai/clip-vit-base-patch16` or `onnx:folder`.

    Args:
        spec: `family:model[,weights]`; see `cosmic encoders`.
        device: `auto` takes a GPU where there is one; or `cpu`, `cuda`, `mps`.
        dtype: what the weights are computed in: `auto` is float32, on cuda float16. Features are float32 always.
        kind: `clip` wants a text tower; `image` wants none and asks for no tokenizer; None takes what is there.
        threads: of a CPU; None leaves the library's own number. For torch it holds for the whole process.

    Raises:
        UnknownNameError: no such family.
        EncoderError: a package or weights are missing, or do not fit; the message says what to do.
    """
    family, model, weights = _split(spec)
    for what, given, known in (("device", device, DEVICES), ("dtype", dtype, DTYPES), ("kind of encoder", kind, KINDS)):
        if given is not None and given not in known:
            raise unknown_name(what, str(given), known)
    if threads is not None and threads < 1:
        raise InputError(f"threads must be at least 1; given {threads}.")
    try:
        encoder = family.load(model, weights, Options(device, dtype, kind, threads))
    except CosmicError as error:
        raise type(error)(f"{spec}: {error}") from error
    encoder.name = spec
    if kind == "clip" and not isinstance(encoder, ClipEncoder):
        raise EncoderError(
            f"{spec}: has no text tower, so it cannot name classes; choose a CLIP or SigLIP model for this, "
            "and give this one as the auxiliary encoder."
        )
    return encoder


def make_clip(spec: str, *, device: str = "auto", dtype: str = "auto", threads: int | None = None) -> ClipEncoder:
    """Make an encoder of pictures and sentences; one without a text tower is refused."""
    encoder: Any = make_encoder(spec, device=device, dtype=dtype, kind="clip", threads=threads)
    clip: ClipEncoder = encoder
    return clip


def make_tower(
    spec: str, class_names: Sequence[str], *, device: str = "auto", dtype: str = "auto", spare: bool = False
) -> TextTower:
    """Make the text tower of an encoder, through which contexts before the class names are learned.

    Args:
        spec: the encoder's name, as a pack has it.
        class_names: the classes, in the order of their labels.
        device: `auto` takes a GPU where there is one; or `cpu`, `cuda`, `mps`.
        dtype: `auto` is float32, on cuda mixed precision with float16; gradients and features are float32 always.
        spare: keep no activations but compute them again on the way back; always so beyond 256 prompts.

    Raises:
        EncoderError: torch or weights are missing, or this encoder's text tower cannot be learned through.
    """
    family, model, weights = _split(spec)
    missing = [package for package in family.learning if find_spec(package) is None]
    if missing:
        raise EncoderError(f"learning prompts needs {' and '.join(missing)}, not installed: {TORCH}.")
    if not family.learning:
        raise EncoderError(
            f"{spec}: gradients do not pass an exported graph; name the encoder that it was exported from."
        )
    from cosmic_tta.encoders.prompt_tower import PromptTower

    try:
        body, wording = family.module().load_prompts(model, weights)
        return PromptTower(body, wording, class_names, Options(device, dtype), spare=spare)
    except CosmicError as error:
        raise type(error)(f"{spec}: {error}") from error


def auto_batch(encoder: Encoder, device: str | None = None) -> int:
    """Return how many pictures to encode at once: fixed for a kind of machine, so that features come out the same."""
    if device is None or device == "auto":
        device = str(getattr(encoder, "device", "cpu"))
    return BATCHES.get(device, BATCHES["cpu"])


def _split(spec: str) -> tuple[Family, str, str | None]:
    name, colon, model = spec.partition(":")
    if name not in FAMILIES:
        raise unknown_name("family of encoders", name, FAMILIES)
    family = FAMILIES[name]
    if not colon or not model:
        raise EncoderError(f"{spec!r} names no model: expected {family.pattern}, for example {family.example}.")
    if not family.weights or "," not in model or Path(model).exists():
        return family, model, None
    model, _, weights = model.rpartition(",")
    if not model or not weights:
        raise EncoderError(f"{spec!r} is incomplete: expected {family.pattern}, for example {family.example}.")
    return family, model, weights
