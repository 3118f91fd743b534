"""Random crops, flips and colours of whole batches, with one resampling and one colour matrix per image."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional

GREY = torch.tensor([0.299, 0.587, 0.114])


def crops(images: Tensor, smallest: float, size: int, random: torch.Generator) -> Tensor:
    """Crop [B, 3, H, W] at random: at least `smallest` of the area, aspect ratios 3:4 to 4:3, half of them flipped."""
    count = len(images)
    area = torch.empty(count).uniform_(smallest, 1, generator=random)
    ratio = torch.empty(count).uniform_(-math.log(4 / 3), math.log(4 / 3), generator=random).exp()
    width, height = (area * ratio).sqrt().clamp(max=1), (area / ratio).sqrt().clamp(max=1)
    left, top = ((1 - edge) * torch.empty(count).uniform_(-1, 1, generator=random) for edge in (width, height))
    mirror = torch.randint(0, 2, (count,), generator=random) * 2 - 1
    zero = torch.zeros(count)
    matrix = torch.stack([width * mirror, zero, left, zero, height, top], 1).view(count, 2, 3)
    grid = functional.affine_grid(matrix, [count, 3, size, size], align_corners=False)
    return functional.grid_sample(images, grid, mode="bilinear", padding_mode="reflection", align_corners=False)


def shifted(images: Tensor, limit: int, random: torch.Generator) -> Tensor:
    """Move [B, 3, H, W] by up to `limit` pixels in each direction, and flip half of them."""
    count, _, height, width = images.shape
    padded = functional.pad(images, [limit] * 4, mode="reflect")
    rows, columns = (torch.randint(0, 2 * limit + 1, (count, 1), generator=random) for _ in range(2))
    rows, columns = rows + torch.arange(height), columns + torch.arange(width)
    mirror = torch.randint(0, 2, (count, 1), generator=random).bool()
    columns = torch.where(mirror, columns.flip(1), columns)
    return padded[torch.arange(count)[:, None, None], :, rows[:, :, None], columns[:, None]].permute(0, 3, 1, 2)


def colours(images: Tensor, strength: float, grey_share: float, random: torch.Generator) -> Tensor:
    """Change brightness, contrast, saturation and hue of [B, 3, H, W] in [0, 1]; make a share of them grey."""
    count = len(images)

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
    flat = images.flatten(2)  # [B, 3, H·W]
    mean = flat.mean((1, 2), keepdim=True)
    contrast = torch.where(changed, factor(0.8), torch.ones(()))
    return (matrix @ ((flat - mean) * contrast + mean)).clamp(0, 1).view_as(images)


def blurred(images: Tensor, share: float, random: torch.Generator) -> Tensor:
    """Blur a share of [B, 3, H, W] by Gaussians of up to one pixel."""
    count, radius = len(images), 2
    width = torch.empty(count, 1).uniform_(0.2, 1, generator=random)
    offsets = torch.arange(-radius, radius + 1)
    weight = (-0.5 * (offsets / width) ** 2).exp()  # [B, 5]
    plain = torch.rand(count, 1, generator=random) >= share
    weight = torch.where(plain, (offsets == 0).float(), weight / weight.sum(1, keepdim=True))
    for edges in ([radius, radius, 0, 0], [0, 0, radius, radius]):  # horizontally, then vertically
        taps = functional.pad(images, edges, mode="replicate").unfold(3 if edges[0] else 2, len(offsets), 1)
        images = (taps * weight[:, None, None, None]).sum(-1)
    return images


def _hue(angle: Tensor) -> Tensor:
    """Rotate colours around the grey axis: [B, 3, 3]."""
    cosine, sine = angle.cos()[:, None, None], angle.sin()[:, None, None]
    third = torch.full((3, 3), 1 / 3)
    cross = torch.tensor([[0.0, -1, 1], [1, 0, -1], [-1, 1, 0]]) / math.sqrt(3)
    return cosine * torch.eye(3) + sine * cross + (1 - cosine) * third
