"""`mini:diffusion`: the small embedded diffusion model. It varies images of 32 by 32 pixels.

An image is mixed with a little noise, and the model removes the noise in a few deterministic steps
(DDIM; J. Song et al., ICLR 2021). The result resembles the image and is never the same.
`tools/mini/diffusion.py` trained the model on the training images of CIFAR-10, without their labels.
"""

from __future__ import annotations

from itertools import pairwise
from math import cos, pi, sin

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from PIL import Image

from cosmic_tta.core.arrays import as_float32
from cosmic_tta.core.errors import EncoderError
from cosmic_tta.encoders.mini import asset_folder
from cosmic_tta.encoders.onnx import ERRORS_ONLY

GRAPH = "denoiser.onnx"
SIZE = 32
# From 0 (image) to 1 (noise). At this level a variation is as similar to the image, for the mini encoders,
# as the image moved by a few pixels.
NOISE_LEVEL = 0.05
STEPS = 3


class MiniDiffusion:
    """Generates variations of an image."""

    def __init__(self) -> None:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = ERRORS_ONLY
        file = asset_folder("diffusion") / GRAPH
        try:
            self._denoiser = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
        except Exception as error:  # missing and damaged files raise many kinds of errors
            raise EncoderError(f"the graph {str(file)!r} cannot be read; install the package again.") from error

    def __call__(self, image: Image.Image, count: int, seed: int) -> list[Image.Image]:
        """Return `count` variations of 32 by 32 pixels; the same seed gives the same ones."""
        small = image.convert("RGB").resize((SIZE, SIZE), Image.Resampling.BICUBIC)
        plain = np.asarray(small, np.float32).transpose(2, 0, 1) / np.float32(127.5) - 1  # [3, SIZE, SIZE]
        random = np.random.Generator(np.random.PCG64(seed))
        noise = random.standard_normal((count, *plain.shape), np.float32)
        angle = NOISE_LEVEL * pi / 2
        varied = self._denoise(np.float32(cos(angle)) * plain + np.float32(sin(angle)) * noise)
        pixels = np.rint((varied.clip(-1, 1) + 1) * 127.5).astype(np.uint8).transpose(0, 2, 3, 1)
        return [Image.fromarray(row) for row in pixels]

    def _denoise(self, noisy: NDArray[np.float32]) -> NDArray[np.float32]:
        """Remove the noise of images [B, 3, SIZE, SIZE] in steps of decreasing noise level."""
        for level, next_level in pairwise(np.linspace(NOISE_LEVEL, 0, STEPS + 1)):
            levels = np.full(len(noisy), level, np.float32)
            velocity: NDArray[np.float32] = self._denoiser.run(["velocity"], {"noisy": noisy, "noise_level": levels})[0]
            image_share, noise_share = np.float32(cos(level * pi / 2)), np.float32(sin(level * pi / 2))
            image = (image_share * noisy - noise_share * velocity).clip(-1, 1)
            noise = (noisy - image_share * image) / noise_share
            noisy = as_float32(cos(next_level * pi / 2) * image + sin(next_level * pi / 2) * noise)
        return noisy
