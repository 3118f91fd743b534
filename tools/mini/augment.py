"""Random crops, flips and colours for whole batches, as one resampling and one colour matrix a picture."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional

GREY = torch.tensor([0.299, 0.587, 0.114])


def crops(pictures: Tensor, smallest: float, size: int, random: torch.Generator) -> Tensor:
    """Crop [B, 3, H, W] at random: at least `smallest` of the area, proportions 3:4 to 4:3, half of them flipped."""
    count = len(pictures)
    area = torch.empty(count).uniform_(smallest, 1, generator=random)
    proportion = torch.empty(count).uniform_(-math.log(4 / 3), math.log(4 / 3), generator=random).exp()
    across, down = (area * proportion).sqrt().clamp(max=1), (area / proportion).sqrt().clamp(max=1)
    left, top = ((1 - side) * torch.empty(count).uniform_(-1, 1, generator=random) for side in (across, down))
    mirror = torch.randint(0, 2, (count,), generator=random) * 2 - 1
    zero = torch.zeros(count)
    matrix = torch.stack([across * mirror, zero, left, zero, down, top], 1).view(count, 2, 3)
    grid = functional.affine_grid(matrix, [count, 3, size, size], align_corners=False)
    return functional.grid_sample(pictures, grid, mode="bilinear", padding_mode="reflection", align_corners=False)


def shifted(pictures: Tensor, most: int, random: torch.Generator) -> Tensor:
    """Move [B, 3, H, W] by up to `most` pixels either way, half of them flipped."""
    count, _, height, width = pictures.shape
    padded = functional.pad(pictures, [most] * 4, mode="reflect")
    rows, columns = (torch.randint(0, 2 * most + 1, (count, 1), generator=random) for _ in range(2))
    rows, columns = rows + torch.arange(height), columns + torch.arange(width)
    mirror = torch.randint(0, 2, (count, 1), generator=random).bool()
    columns = torch.where(mirror, columns.flip(1), columns)
    return padded[torch.arange(count)[:, None, None], :, rows[:, :, None], columns[:, None]].permute(0, 3, 1, 2)


def colours(pictures: Tensor, strength: float, grey_share: float, random: torch.Generator) -> Tensor:
    """Change brightness, contrast, saturation and hue of [B, 3, H, W] in [0, 1]; a share of them loses its colours."""
    count = len(pictures)

    def factor(scale: float) -> Tensor:
        return 1 + torch.empty(count, 1, 1).uniform_(-scale, scale, generator=random) * strength

    saturation = factor(0.8)
    grey = torch.rand(count, 1, 1, generator=random) < grey_share
    saturation = torch.where(grey, torch.zeros(()), saturation)
    changed = (torch.rand(count, 1, 1, generator=random) < 0.8) | grey
    to_grey = GREY.expand(3, 3)
    matrix = saturation * torch.eye(3) + (1 - saturation) * to_grey
    angle = torch.empty(count).uniform_(-1, 1, generator=random) * 0.6 * strength
    matrix = (_hue(angle) @ matrix) * factor(0.8)
    matrix = torch.where(changed, matrix, torch.eye(3))
    flat = pictures.flatten(2)  # [B, 3, H·W]
    mean = flat.mean((1, 2), keepdim=True)
    contrast = torch.where(changed, factor(0.8), torch.ones(()))
    return (matrix @ ((flat - mean) * contrast + mean)).clamp(0, 1).view_as(pictures)


def softened(pictures: Tensor, share: float, random: torch.Generator) -> Tensor:
    """Blur a share of [B, 3, H, W] by Gaussians of up to one pixel."""
    count, reach = len(pictures), 2
    width = torch.empty(count, 1).uniform_(0.2, 1, generator=random)
    away = torch.arange(-reach, reach + 1)
    weight = (-0.5 * (away / width) ** 2).exp()  # [B, 5]
    plain = torch.rand(count, 1, generator=random) >= share
    weight = torch.where(plain, (away == 0).float(), weight / weight.sum(1, keepdim=True))
    for edges in ([reach, reach, 0, 0], [0, 0, reach, reach]):  # across, then down
        taps = functional.pad(pictures, edges, mode="replicate").unfold(3 if edges[0] else 2, len(away), 1)
        pictures = (taps * weight[:, None, None, None]).sum(-1)
    return pictures


def _hue(angle: Tensor) -> Tensor:
    """Rotate colours around the grey axis: [B, 3, 3]."""
    cosine, sine = angle.cos()[:, None, None], angle.sin()[:, None, None]
    third = torch.full((3, 3), 1 / 3)
    cross = torch.tensor([[0.0, -1, 1], [1, 0, -1], [-1, 1, 0]]) / math.sqrt(3)
    return cosine * torch.eye(3) + sine * cross + (1 - cosine) * third
