"""Diffusion models that generate variations of an image: pipelines of diffusers, or the small embedded model."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

from PIL import Image

from cosmic_tta.core.errors import EncoderError, install_extra, missing_packages, unknown_name
from cosmic_tta.encoders.base import EncoderOptions

INSTALL = install_extra("diffusion")
EXAMPLE = "stabilityai/stable-diffusion-2-1-unclip-small"  # varies an image and needs no prompt
MINI = "mini:diffusion"
ViewGenerator = Callable[[Image.Image, int, int], list[Image.Image]]  # (image, count, seed) → variations


def load(name: str, device: str = "auto") -> ViewGenerator:
    """Load a model that generates variations of an image.

    Args:
        name: `mini:diffusion`, or the name or folder of a diffusers pipeline.
        device: `auto`, `cpu`, `cuda` or `mps`.

    Raises:
        UnknownNameError: There is no embedded model of that name.
        EncoderError: A package is missing, or the pipeline cannot be loaded.
    """
    if name == MINI:
        from cosmic_tta.encoders.mini_diffusion import MiniDiffusion

        return MiniDiffusion()
    if name.startswith("mini:"):
        raise unknown_name("embedded diffusion model", name, (MINI,))
    missing = [package for package in ("torch", "diffusers") if find_spec(package) is None]
    if missing:
        raise EncoderError(missing_packages("generating views needs", missing, INSTALL))
    import torch
    from diffusers import DiffusionPipeline

    from cosmic_tta.encoders.torch_encoder import choose_device

    torch_device, dtype = choose_device(EncoderOptions(device))
    try:
        pipeline = DiffusionPipeline.from_pretrained(name, torch_dtype=dtype).to(torch_device)
    except Exception as error:  # missing files, an unreachable hub and damaged files raise many kinds of errors
        raise EncoderError(f"diffusers cannot load {name!r}: {error!s:.300}") from error
    pipeline.set_progress_bar_config(disable=True)

    def generate(image: Image.Image, count: int, seed: int) -> list[Image.Image]:
        random = torch.Generator("cpu").manual_seed(seed)
        result: Any = pipeline(image=image, num_images_per_prompt=count, generator=random)
        return list(result.images)

    return generate
