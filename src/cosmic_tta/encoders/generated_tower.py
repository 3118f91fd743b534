"""A text tower with drawn weights: CLIP's form at any size, for contracts and for measuring what learning costs."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

import torch
from torch import nn

from cosmic_tta.encoders.base import Options
from cosmic_tta.encoders.clip_resnet import ResnetPrompts
from cosmic_tta.encoders.clip_resnet_model import HEAD, ClipResnet, Sizes
from cosmic_tta.encoders.prompt_tower import PromptTower, Wording

WORDS = 512  # numbers that a word may have; the two after them are start and end
CONTEXT = 77


def generated_tower(
    class_names: Sequence[str], dim: int, *, width: int = HEAD, layers: int = 1, device: str = "cpu"
) -> PromptTower:
    """Make a text tower whose weights come from a fixed seed; a word's number comes from its letters."""
    sizes = Sizes(
        dim=dim,
        layers=(1, 1, 1, 1),
        width=8,
        resolution=32,
        context=CONTEXT,
        vocabulary=WORDS + 2,
        text_width=width,
        text_layers=layers,
    )
    model = ClipResnet(sizes)
    _draw(model)

    def numbers(text: str) -> list[int]:
        return [
            int.from_bytes(blake2b(word.encode(), digest_size=4).digest(), "little") % WORDS for word in text.split()
        ]

    wording = Wording(numbers, (WORDS,), (WORDS + 1,))
    return PromptTower(ResnetPrompts(model), wording, class_names, Options(device, "float32"))


def _draw(model: nn.Module) -> None:
    random = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.ndim > 1:
                weight.copy_(torch.randn(weight.shape, generator=random) / weight.shape[-1] ** 0.5)
            else:
                weight.fill_(1.0 if name.endswith("weight") else 0.0)
