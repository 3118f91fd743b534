"""Encoders that torch runs: an image tower and a text tower, and the classes that call them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from cosmic_tta.core.errors import EncoderError
from cosmic_tta.data.images.preprocess import Preprocessing
from cosmic_tta.encoders.base import TEXT_BATCH, EncoderOptions, Tokens, checked_pixels, checked_texts
from cosmic_tta.encoders.fingerprint import fingerprint

ALIGNMENT = 64  # bytes, of memory that torch allocates
Tokenizer = Callable[[Sequence[str]], NDArray[np.int64]]  # sentences → [T, context]


class EncoderBody(nn.Module, ABC):
    """The image tower of a family: features and patches of normalised images."""

    @abstractmethod
    def forward(self, numbers: Tensor) -> tuple[Tensor, Tensor]:
        """Return features [B, dim] of [B, 3, height, width], and the hidden state that `patches` takes."""

    @abstractmethod
    def patches(self, hidden: Tensor) -> Tensor:
        """Return the tokens of the patches: [B, rows, columns, width]."""


class TorchImageTower(nn.Module):
    """Encodes eight-bit pixels as unit features and unit patch tokens; it contains the normalisation."""

    def __init__(self, body: EncoderBody, preprocessing: Preprocessing) -> None:
        super().__init__()
        self.body = body
        scale, shift = preprocessing.affine()
        self.scale: Tensor
        self.shift: Tensor
        self.register_buffer("scale", torch.from_numpy(scale).view(3, 1, 1), persistent=False)
        self.register_buffer("shift", torch.from_numpy(shift).view(3, 1, 1), persistent=False)

    def features(self, pixels: Tensor) -> Tensor:
        """Encode [B, height, width, 3] as unit rows [B, dim]."""
        return _unit(self.body(self._numbers(pixels))[0])

    def forward(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        """Return features [B, dim] and patches [B, rows, columns, width], all of length one."""
        features, hidden = self.body(self._numbers(pixels))
        return _unit(features), _unit(self.body.patches(hidden))

    def _numbers(self, pixels: Tensor) -> Tensor:
        numbers = pixels.permute(0, 3, 1, 2).to(torch.float32) * self.scale - self.shift
        return numbers.contiguous().to(next(self.body.parameters()).dtype)


class TorchTextTower(nn.Module):
    """Encodes token numbers [T, context] as unit rows [T, dim]."""

    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body = body

    def forward(self, ids: Tensor) -> Tensor:
        """Encode tokenized sentences."""
        return _unit(self.body(ids))


def _unit(rows: Tensor) -> Tensor:
    return nn.functional.normalize(rows.to(torch.float32), dim=-1)


class TorchEncoder:
    """Encodes images with torch."""

    def __init__(
        self, weights: nn.Module, body: EncoderBody, dim: int, preprocessing: Preprocessing, options: EncoderOptions
    ) -> None:
        self.name, self.dim, self.preprocessing = "", dim, preprocessing
        self.device, dtype = choose_device(options)
        self.weights = _aligned(weights.to(dtype).eval().requires_grad_(False)).to(self.device)
        self.image = TorchImageTower(body, preprocessing).eval().to(self.device)

    @cached_property
    def fingerprint(self) -> str:
        """Hash of all weights, in the type that they are computed in."""
        return fingerprint(
            {name: tensor.detach().cpu().contiguous() for name, tensor in self.weights.state_dict().items()}
        )

    def encode(self, pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Encode [B, height, width, 3] as unit rows [B, dim]."""
        pixels = checked_pixels(pixels, self.preprocessing)
        if not len(pixels):
            return np.empty((0, self.dim), np.float32)
        with _deterministic():
            return _array(self.image.features(torch.from_numpy(pixels).to(self.device)))

    def tokens(self, pixels: NDArray[np.uint8]) -> Tokens:
        """Return the class tokens (or pooled features) and the grids of patch tokens of [B, height, width, 3]."""
        pixels = checked_pixels(pixels, self.preprocessing)
        with _deterministic():
            summary, patches = self.image(torch.from_numpy(pixels).to(self.device))
        return Tokens(_array(summary), _array(patches))


class TorchClip(TorchEncoder):
    """Encodes images and sentences with torch."""

    def __init__(
        self,
        weights: nn.Module,
        body: EncoderBody,
        dim: int,
        preprocessing: Preprocessing,
        options: EncoderOptions,
        *,
        text: nn.Module,
        tokenizer: Tokenizer,
        logit_scale: float,
    ) -> None:
        super().__init__(weights, body, dim, preprocessing, options)
        self.text, self.tokenizer, self.logit_scale = TorchTextTower(text).eval(), tokenizer, logit_scale

    def encode_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Encode sentences as unit rows [T, dim]."""
        ids = torch.from_numpy(self.tokenizer(checked_texts(texts)))
        with _deterministic():
            blocks = [_array(self.text(block.to(self.device))) for block in ids.split(TEXT_BATCH) if len(block)]
        return np.concatenate([np.empty((0, self.dim), np.float32), *blocks])


@contextmanager
def _deterministic() -> Iterator[None]:
    """Disable gradients, and on a GPU use algorithms that give the same bits each time."""
    library = torch.backends.cudnn
    before = library.deterministic, library.benchmark
    library.deterministic, library.benchmark = True, False
    try:
        with torch.inference_mode():
            yield
    finally:
        library.deterministic, library.benchmark = before


def _aligned(weights: nn.Module) -> nn.Module:
    """Copy unaligned tensors, such as those of a mapped file: the last bits of a product depend on the alignment."""
    for value in (*weights.parameters(), *weights.buffers()):
        if value.data_ptr() % ALIGNMENT:
            value.data = value.data.clone()
    return weights


def _array(tensor: Tensor) -> NDArray[np.float32]:
    return tensor.cpu().numpy()


def choose_device(options: EncoderOptions) -> tuple[str, torch.dtype]:
    """Choose the device and the dtype; a device that is not available is refused."""
    if options.threads is not None:
        torch.set_num_threads(options.threads)
    available = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    device = options.device
    if device == "auto":
        device = next(name for name in ("cuda", "mps", "cpu") if available[name])
    if not available[device]:
        found = ", ".join(name for name, present in available.items() if present)
        raise EncoderError(f"device {device!r} is not available: torch {torch.__version__} finds {found}.")
    automatic = "float16" if device == "cuda" else "float32"
    return device, getattr(torch, automatic if options.dtype == "auto" else options.dtype)
