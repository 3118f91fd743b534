"""A text tower with random weights: CLIP's architecture at any size, for method checks and benchmarks."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

import torch
from torch import nn

from cosmic_tta.encoders.base import EncoderOptions
from cosmic_tta.encoders.clip_resnet import ResnetPrompts
from cosmic_tta.encoders.clip_resnet_model import HEAD_WIDTH, ClipResnet, ClipResnetSizes
from cosmic_tta.encoders.prompt_tower import PromptTokens, TorchPromptTower

VOCABULARY = 512  # token numbers of words; the next two are start and end
CONTEXT = 77


def random_tower(
    class_names: Sequence[str], dim: int, *, width: int = HEAD_WIDTH, layers: int = 1, device: str = "cpu"
) -> TorchPromptTower:
    """Make a text tower with weights of a fixed seed. The token number of a word is a hash of its letters."""
    sizes = ClipResnetSizes(
        dim=dim,
        layers=(1, 1, 1, 1),
        width=8,
        resolution=32,
        context=CONTEXT,
        vocabulary=VOCABULARY + 2,
        text_width=width,
        text_layers=layers,
    )
    model = ClipResnet(sizes)
    _randomize(model)

    def numbers(text: str) -> list[int]:
        return [
            int.from_bytes(blake2b(word.encode(), digest_size=4).digest(), "little") % VOCABULARY
            for word in text.split()
        ]

    prompt_tokens = PromptTokens(numbers, (VOCABULARY,), (VOCABULARY + 1,))
    return TorchPromptTower(ResnetPrompts(model), prompt_tokens, class_names, EncoderOptions(device, "float32"))


def _randomize(model: nn.Module) -> None:
    random = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.ndim > 1:
                weight.copy_(torch.randn(weight.shape, generator=random) / weight.shape[-1] ** 0.5)
            else:
                weight.fill_(1.0 if name.endswith("weight") else 0.0)
