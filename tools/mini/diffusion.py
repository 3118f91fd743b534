"""Train the embedded diffusion model on CIFAR-10: `python tools/mini/diffusion.py --data FOLDER --out FOLDER`.

A small unconditional diffusion model. From a noisy image and its noise level it predicts the "velocity" (Salimans and
Ho, ICLR 2022), from which image and noise follow. Training resumes from the last checkpoint. It takes about an hour
on one thread.
"""

from __future__ import annotations

import argparse
import copy
import math
import time
from pathlib import Path

import photographs
import torch
from torch import Tensor, nn
from torch.nn import functional

WIDTHS = (48, 80, 96)  # on grids of 16, 8 and 4
BATCH, EPOCHS, PEAK = 128, 10, 2e-3
AVERAGE_DECAY = 0.999  # of the averaged weights, per step


class Block(nn.Module):
    """Two convolutions with a shortcut; the noise level scales and shifts the features between them."""

    def __init__(self, inside: int, outside: int, level_width: int) -> None:
        super().__init__()
        self.first_norm, self.second_norm = nn.GroupNorm(8, inside), nn.GroupNorm(8, outside)
        self.first = nn.Conv2d(inside, outside, 3, padding=1)
        self.second = nn.Conv2d(outside, outside, 3, padding=1)
        self.modulation = nn.Linear(level_width, 2 * outside)
        self.shortcut = nn.Identity() if inside == outside else nn.Conv2d(inside, outside, 1)
        nn.init.zeros_(self.second.weight)

    def forward(self, x: Tensor, level: Tensor) -> Tensor:
        scale, shift = self.modulation(level)[..., None, None].chunk(2, dim=1)
        inner = self.first(functional.silu(self.first_norm(x)))
        inner = self.second(functional.silu(self.second_norm(inner) * (1 + scale) + shift))
        return self.shortcut(x) + inner


class Denoiser(nn.Module):
    """Noisy images [B, 3, 32, 32] and their noise levels [B], 0 to 1 → the velocity."""

    def __init__(self, level_width: int = 128) -> None:
        super().__init__()
        fine, middle, coarse = WIDTHS
        self.embed_level = nn.Sequential(
            nn.Linear(32, level_width), nn.SiLU(), nn.Linear(level_width, level_width), nn.SiLU()
        )
        self.stem = nn.Conv2d(12, fine, 3, padding=1)
        self.down1, self.down2 = Block(fine, fine, level_width), Block(middle, middle, level_width)
        self.to_middle = nn.Conv2d(fine, middle, 3, 2, 1)
        self.to_coarse = nn.Conv2d(middle, coarse, 3, 2, 1)
        self.deep1, self.deep2 = Block(coarse, coarse, level_width), Block(coarse, coarse, level_width)
        self.up2, self.up1 = Block(coarse + middle, middle, level_width), Block(middle + fine, fine, level_width)
        self.norm, self.head = nn.GroupNorm(8, fine), nn.Conv2d(fine, 12, 3, padding=1)
        nn.init.zeros_(self.head.weight)

    def forward(self, x: Tensor, noise_level: Tensor) -> Tensor:
        angles = noise_level[:, None] * (math.pi / 2 * 2.0 ** (torch.arange(16) * 0.4))
        level = self.embed_level(torch.cat([angles.sin(), angles.cos()], dim=1))
        fine = self.down1(self.stem(functional.pixel_unshuffle(x, 2)), level)
        middle = self.down2(self.to_middle(fine), level)
        coarse = self.deep2(self.deep1(self.to_coarse(middle), level), level)
        middle = self.up2(torch.cat([functional.interpolate(coarse, scale_factor=2.0), middle], dim=1), level)
        fine = self.up1(torch.cat([functional.interpolate(middle, scale_factor=2.0), fine], dim=1), level)
        return functional.pixel_shuffle(self.head(functional.silu(self.norm(fine))), 2)


def loss_of(model: Denoiser, images: Tensor, random: torch.Generator) -> Tensor:
    """Add noise of a random level, and compare the predicted velocity with the true one."""
    level = torch.rand(len(images), generator=random)
    noise = torch.randn(images.shape, generator=random)
    image_share, noise_share = (f(level * math.pi / 2)[:, None, None, None] for f in (torch.cos, torch.sin))
    velocity = image_share * noise - noise_share * images
    return functional.mse_loss(model(image_share * images + noise_share * noise, level), velocity)


def train(data: Path, out: Path, seed: int) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    images, _ = photographs.read(data, "train")
    model = Denoiser().to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    average = copy.deepcopy(model)
    steps = len(images) // BATCH
    optimizer = torch.optim.AdamW(model.parameters(), lr=PEAK, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, PEAK, EPOCHS * steps, pct_start=0.05)
    file, first = out / "diffusion.pt", 0
    if file.exists():
        checkpoint = torch.load(file, weights_only=True)
        first = checkpoint.pop("epoch")
        for name, part in {"model": model, "mean": average, "optimizer": optimizer, "schedule": schedule}.items():
            part.load_state_dict(checkpoint[name])
    for epoch in range(first, EPOCHS):
        start, total = time.time(), 0.0
        random = torch.Generator().manual_seed(seed * 1000 + epoch)
        for chosen in torch.randperm(len(images), generator=random)[: steps * BATCH].split(BATCH):
            batch = images[chosen].float() / 127.5 - 1
            batch = torch.where(torch.rand(BATCH, 1, 1, 1, generator=random) < 0.5, batch.flip(3), batch)
            loss = loss_of(model, batch.contiguous(memory_format=torch.channels_last), random)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            with torch.no_grad():
                for slow, now in zip(average.parameters(), model.parameters(), strict=True):
                    slow.lerp_(now, 1 - AVERAGE_DECAY)
            total += float(loss.detach()) / steps
        parts = {"model": model, "mean": average, "optimizer": optimizer, "schedule": schedule}
        torch.save(
            {name: part.state_dict() for name, part in parts.items()} | {"epoch": epoch + 1}, out / "diffusion.tmp"
        )
        (out / "diffusion.tmp").replace(file)
        print(f"diffusion epoch {epoch + 1}/{EPOCHS}: loss {total:.4f}, {time.time() - start:.0f} s", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    train(given.data, given.out, given.seed)
