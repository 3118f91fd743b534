"""`mini:drawer`: the small diffusion model that ships with the package; it varies pictures of the mini pair's size.

A picture goes a part of the way to noise, and the model brings it back in a few steps, without chance (J. Song et al.,
ICLR 2021): what it finds there is like the picture, and never the same. Trained by `tools/mini/drawer.py` on the
training photographs of CIFAR-10, without their labels.
"""

from __future__ import annotations

from itertools import pairwise
from math import cos, pi, sin

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from PIL import Image

from cosmic_tta.encoders.mini import home
from cosmic_tta.encoders.onnx import ERRORS_ONLY
from cosmic_tta.errors import EncoderError
from cosmic_tta.ops import as_float32

GRAPH = "denoiser.onnx"
SIZE = 32
FAR = 0.05  # of the way to noise: to the mini pair, what comes back is then as like a picture as that moved by pixels
STEPS = 3  # back


class MiniDrawer:
    """Draws variations of a picture."""

    def __init__(self) -> None:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = ERRORS_ONLY
        file = home("drawer") / GRAPH
        try:
            self._graph = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
        except Exception as error:  # a missing file and a damaged one come as many kinds of error
            raise EncoderError(f"the graph in {str(file)!r} cannot be read; install the package anew.") from error

    def __call__(self, picture: Image.Image, count: int, seed: int) -> list[Image.Image]:
        """Draw so many variations, of 32 by 32 pixels; the same seed gives the same ones."""
        small = picture.convert("RGB").resize((SIZE, SIZE), Image.Resampling.BICUBIC)
        plain = np.asarray(small, np.float32).transpose(2, 0, 1) / np.float32(127.5) - 1  # [3, SIZE, SIZE]
        random = np.random.Generator(np.random.PCG64(seed))
        noise = random.standard_normal((count, *plain.shape), np.float32)
        drawn = self._back(np.float32(cos(FAR * pi / 2)) * plain + np.float32(sin(FAR * pi / 2)) * noise)
        pixels = np.rint((drawn.clip(-1, 1) + 1) * 127.5).astype(np.uint8).transpose(0, 2, 3, 1)
        return [Image.fromarray(one) for one in pixels]

    def _back(self, noisy: NDArray[np.float32]) -> NDArray[np.float32]:
        """Bring pictures [B, 3, SIZE, SIZE] that went `FAR` back: at each step, what is picture and what is noise?"""
        ways = np.linspace(FAR, 0, STEPS + 1)
        for here, there in pairwise(ways):
            far = np.full(len(noisy), here, np.float32)
            velocity: NDArray[np.float32] = self._graph.run(["velocity"], {"noisy": noisy, "far": far})[0]
            stays, comes = np.float32(cos(here * pi / 2)), np.float32(sin(here * pi / 2))
            picture = (stays * noisy - comes * velocity).clip(-1, 1)
            noise = (noisy - stays * picture) / comes
            noisy = as_float32(cos(there * pi / 2) * picture + sin(there * pi / 2) * noise)
        return noisy
