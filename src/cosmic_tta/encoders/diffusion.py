"""Views of a picture that a diffusion model draws: one of the package diffusers, or the small embedded one."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

from PIL import Image

from cosmic_tta.encoders.base import Options
from cosmic_tta.errors import EncoderError, unknown_name

INSTALL = "pip install 'cosmic-tta[diffusion]', in a clone -e '.[diffusion]'"
EXAMPLE = "stabilityai/stable-diffusion-2-1-unclip-small"  # draws variations of a picture, without a sentence
MINI = "mini:drawer"
Draw = Callable[[Image.Image, int, int], list[Image.Image]]  # a picture, how many, a seed


def load(name: str, device: str = "auto") -> Draw:
    """Load what takes a picture and gives variations of it: `mini:drawer`, or a pipeline by its name or folder."""
    if name == MINI:
        from cosmic_tta.encoders.mini_drawer import MiniDrawer

        return MiniDrawer()
    if name.startswith("mini:"):
        raise unknown_name("embedded model that draws", name, (MINI,))
    missing = [package for package in ("torch", "diffusers") if find_spec(package) is None]
    if missing:
        raise EncoderError(f"drawing views needs {' and '.join(missing)}, not installed: {INSTALL}.")
    import torch
    from diffusers import DiffusionPipeline

    from cosmic_tta.encoders.torch_towers import where

    place, dtype = where(Options(device))
    try:
        pipeline = DiffusionPipeline.from_pretrained(name, torch_dtype=dtype).to(place)
    except Exception as error:  # a missing file, an unreachable hub and a damaged file come as many kinds of error
        raise EncoderError(f"diffusers cannot load {name!r}: {error!s:.300}") from error
    pipeline.set_progress_bar_config(disable=True)

    def draw(picture: Image.Image, count: int, seed: int) -> list[Image.Image]:
        random = torch.Generator("cpu").manual_seed(seed)
        drawn: Any = pipeline(image=picture, num_images_per_prompt=count, generator=random)
        return list(drawn.images)

    return draw
