"""The embedded encoders: a small residual network for images, a smaller transformer for sentences."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

WIDTHS = (48, 96, 192)
DIM = 128


class Block(nn.Module):
    """Two convolutions with a shortcut."""

    def __init__(self, inside: int, outside: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(inside, outside, 3, stride, 1, bias=False)
        self.first_norm = nn.BatchNorm2d(outside)
        self.second = nn.Conv2d(outside, outside, 3, 1, 1, bias=False)
        self.second_norm = nn.BatchNorm2d(outside)
        same = stride == 1 and inside == outside
        self.around = nn.Identity() if same else nn.Conv2d(inside, outside, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        inner = functional.relu(self.first_norm(self.first(x)))
        return functional.relu(self.around(x) + self.second_norm(self.second(inner)))


class ImageTower(nn.Module):
    """Images [B, 3, 32, 32] in [0, 1] → features [B, DIM], not normalised.

    The first convolution halves the edges of the image, for speed on small machines.
    """

    def __init__(self, widths: tuple[int, ...] = WIDTHS, dim: int = DIM) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        inside = widths[0]
        for stage, width in enumerate(widths):
            layers.append(Block(inside, width, 2 if stage else 1))
            inside = width
        self.stem = nn.Sequential(nn.Conv2d(3, widths[0], 3, 2, 1, bias=False), nn.BatchNorm2d(widths[0]), nn.ReLU())
        self.stages = nn.Sequential(*layers)
        self.project = nn.Linear(inside, dim, bias=False)
        self.width = inside

    def cells(self, x: Tensor) -> Tensor:
        """Return the last grid: [B, width, 4, 4]."""
        return self.stages(self.stem((x - 0.47) / 0.25))

    def pooled(self, x: Tensor) -> Tensor:
        """Return the features before the projection: [B, width]."""
        return self.cells(x).mean((2, 3))

    def forward(self, x: Tensor) -> Tensor:
        return self.project(self.pooled(x))


class TextTower(nn.Module):
    """Sentences as word numbers [T, L], 0 for padding → features [T, DIM], not normalised."""

    def __init__(self, words: int, longest: int, width: int = 64, dim: int = DIM) -> None:
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.places = nn.Parameter(torch.randn(longest, width) * 0.02)
        self.queries, self.keys, self.values = (nn.Linear(width, width, bias=False) for _ in range(3))
        self.norm = nn.LayerNorm(width)
        self.inner = nn.Sequential(nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, width))
        self.project = nn.Linear(width, dim, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        present = (tokens > 0).float()  # [T, L]
        x = self.words(tokens) + self.places
        scores = self.queries(x) @ self.keys(x).transpose(1, 2) / x.shape[-1] ** 0.5  # [T, L, L]
        scores = scores - 1e4 * (1 - present[:, None])
        x = self.norm(x + scores.softmax(-1) @ self.values(x))
        x = x + self.inner(x)
        mean = (x * present[..., None]).sum(1) / present.sum(1, keepdim=True)
        return self.project(mean)
