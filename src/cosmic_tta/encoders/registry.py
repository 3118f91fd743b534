"""Encoders by name: `family:model[,weights]`.

The library of a family is imported when one of its encoders is made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from cosmic_tta.core.errors import (
    CosmicError,
    EncoderError,
    InputError,
    install_extra,
    missing_packages,
    unknown_name,
)
from cosmic_tta.core.types import PromptTower
from cosmic_tta.encoders.base import DEVICES, DTYPES, KINDS, ClipEncoder, Encoder, EncoderOptions

BATCHES = {"cpu": 64, "cuda": 256, "mps": 128}
TORCH = f"{install_extra('torch')} (we test with torch==2.13.0)"


@dataclass(frozen=True)
class EncoderFamily:
    """A family of encoders: the names it reads and the packages it needs.

    Args:
        name: The part of an encoder's name before the colon.
        pattern: Form of the names.
        example: A name.
        packages: Packages that its encoders need.
        install: Command that installs them.
        summary: One line for listings.
        weights: Whether a comma separates the model from its weights.
        tower_packages: Packages of its differentiable text tower; empty if it has none.

    Examples:
        >>> FAMILIES["mini"].pattern, FAMILIES["mini"].packages
        ('mini:clip or mini:dino', ('onnxruntime',))
    """

    name: str
    pattern: str
    example: str
    packages: tuple[str, ...]
    install: str
    summary: str
    weights: bool = False
    tower_packages: tuple[str, ...] = ()

    @property
    def missing(self) -> tuple[str, ...]:
        """The packages that it needs and that are not installed."""
        return tuple(package for package in self.packages if find_spec(package) is None)

    def load(self, model: str, weights: str | None, options: EncoderOptions) -> Encoder:
        """Import the family's module and load an encoder."""
        if self.missing:
            raise EncoderError(missing_packages(f"{self.name}: encoders need", self.missing, self.install))
        encoder: Encoder = self.module().load(model, weights, options)
        return encoder

    def module(self) -> Any:
        """Import the family's module."""
        try:
            return import_module(f"cosmic_tta.encoders.{self.name.replace('-', '_')}")
        except (ImportError, RuntimeError, OSError) as error:
            raise EncoderError(
                f"{self.name}: encoders cannot run here: {error}. Install again: {self.install}."
            ) from error


FAMILIES: Mapping[str, EncoderFamily] = {
    family.name: family
    for family in (
        EncoderFamily(
            "hf",
            "hf:NAME[,REVISION] or FOLDER",
            "hf:openai/clip-vit-base-patch16",
            ("torch", "transformers"),
            TORCH,
            "CLIP, SigLIP, DINOv2 and DINOv3 ViTs by transformers, from the hub's cache or a folder",
            weights=True,
            tower_packages=("torch", "transformers"),
        ),
        EncoderFamily(
            "clip-resnet",
            "clip-resnet:FILE or FOLDER",
            "clip-resnet:RN50.pt",
            ("torch", "safetensors"),
            TORCH,
            "CLIP's modified ResNets (RN50, RN101, RN50x4, ...) from the published files",
            tower_packages=("torch", "safetensors"),
        ),
        EncoderFamily(
            "open_clip",
            "open_clip:MODEL[,WEIGHTS]",
            "open_clip:ViT-B-16,openai",
            ("torch", "torchvision", "open_clip"),
            f"{install_extra('open_clip')}, with a torchvision that fits your torch",
            "models that open_clip loads",
            weights=True,
            tower_packages=("torch", "torchvision", "open_clip"),
        ),
        EncoderFamily(
            "mini",
            "mini:clip or mini:dino",
            "mini:clip",
            ("onnxruntime",),
            "pip install onnxruntime",
            "the two embedded encoders: ten classes, for trials",
            tower_packages=("torch", "onnx"),
        ),
        EncoderFamily(
            "onnx",
            "onnx:FOLDER",
            "onnx:clip-b16-int8",
            ("onnxruntime",),
            "pip install onnxruntime",
            "folders that `cosmic export-onnx` wrote",
        ),
    )
}
"""All families of encoders, by name."""


def make_encoder(
    spec: str, *, device: str = "auto", dtype: str = "auto", kind: str | None = None, threads: int | None = None
) -> Encoder:
    """Make an encoder by name, such as `hf:openai/clip-vit-base-patch16` or `onnx:folder`.

    Args:
        spec: `family:model[,weights]`; `cosmic encoders` lists the families.
        device: `cpu`, `cuda`, `mps`, or `auto` for a GPU if there is one.
        dtype: Type of the computation; `auto` is float16 on cuda, else float32. Features are always float32.
        kind: `clip` requires a text tower; `image` loads none, and needs no tokenizer; None takes what the model has.
        threads: Threads of a CPU; None leaves the library's default. With torch it sets the whole process's.

    Returns:
        The encoder; a `ClipEncoder` if it has a text tower.

    Raises:
        UnknownNameError: There is no such family, device, dtype or kind.
        EncoderError: A package or weights are missing, or the weights do not fit.

    Examples:
        >>> encoder = make_encoder("mini:dino")
        >>> encoder.dim, encoder.preprocessing.size
        (256, (32, 32))
    """
    family, model, weights = _split(spec)
    for what, given, known in (("device", device, DEVICES), ("dtype", dtype, DTYPES), ("kind of encoder", kind, KINDS)):
        if given is not None and given not in known:
            raise unknown_name(what, str(given), known)
    if threads is not None and threads < 1:
        raise InputError(f"threads must be at least 1; given {threads}.")
    try:
        encoder = family.load(model, weights, EncoderOptions(device, dtype, kind, threads))
    except CosmicError as error:
        raise type(error)(f"{spec}: {error}") from error
    encoder.name = spec
    if kind == "clip" and not isinstance(encoder, ClipEncoder):
        raise EncoderError(
            f"{spec}: has no text tower, so it cannot encode class names; choose a CLIP or SigLIP model, "
            "and use this one as the auxiliary encoder."
        )
    return encoder


def make_clip(spec: str, *, device: str = "auto", dtype: str = "auto", threads: int | None = None) -> ClipEncoder:
    """Make an encoder of images and sentences.

    Args:
        spec: `family:model[,weights]`; `cosmic encoders` lists the families.
        device: `cpu`, `cuda`, `mps`, or `auto` for a GPU if there is one.
        dtype: Type of the computation; `auto` is float16 on cuda, else float32.
        threads: Threads of a CPU; None leaves the library's default.

    Returns:
        The encoder.

    Raises:
        UnknownNameError: There is no such family, device or dtype.
        EncoderError: The model has no text tower, or a package or weights are missing.

    Examples:
        >>> make_clip("mini:clip").encode_texts(["a photo of a cat."]).shape
        (1, 128)
    """
    encoder: Any = make_encoder(spec, device=device, dtype=dtype, kind="clip", threads=threads)
    clip: ClipEncoder = encoder
    return clip


def make_tower(
    spec: str, class_names: Sequence[str], *, device: str = "auto", dtype: str = "auto", recompute: bool = False
) -> PromptTower:
    """Make the differentiable text tower of an encoder, for methods that learn context vectors.

    Args:
        spec: Name of the encoder.
        class_names: The classes, in the order of their labels.
        device: `cpu`, `cuda`, `mps`, or `auto` for a GPU if there is one.
        dtype: `auto` is mixed precision with float16 on cuda, else float32. Gradients and features are float32.
        recompute: Recompute activations in the backward pass to save memory; always so for more than 256 prompts.

    Returns:
        The text tower.

    Raises:
        EncoderError: torch or weights are missing, or this encoder has no differentiable text tower.

    Examples:
        >>> tower = make_tower("mini:clip", ["cat", "dog"])  # needs torch and onnx
        >>> tower.texts(tower.opening("a photo of a")).shape
        (2, 128)
    """
    family, model, weights = _split(spec)
    missing = [package for package in family.tower_packages if find_spec(package) is None]
    if missing:
        raise EncoderError(missing_packages("learning prompts needs", missing, TORCH))
    if not family.tower_packages:
        raise EncoderError(f"{spec}: an exported graph has no gradients; give the encoder that it was exported from.")
    from cosmic_tta.encoders.prompt_tower import TorchPromptTower

    try:
        body, prompt_tokens = family.module().load_prompts(model, weights)
        return TorchPromptTower(body, prompt_tokens, class_names, EncoderOptions(device, dtype), recompute=recompute)
    except CosmicError as error:
        raise type(error)(f"{spec}: {error}") from error


def auto_batch(encoder: Encoder, device: str | None = None) -> int:
    """Return how many images to encode at once. It is fixed per kind of device, so features are reproducible.

    Args:
        encoder: The encoder.
        device: `cpu`, `cuda` or `mps`; None or `auto` is the encoder's device.

    Returns:
        The batch size.

    Examples:
        >>> auto_batch(make_encoder("mini:clip", device="cpu"))
        64
    """
    if device is None or device == "auto":
        device = str(getattr(encoder, "device", "cpu"))
    return BATCHES.get(device, BATCHES["cpu"])


def _split(spec: str) -> tuple[EncoderFamily, str, str | None]:
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
