"""Train the mini drawer on CIFAR-10: `python tools/mini/drawer.py --data FOLDER --out FOLDER`.

A small diffusion model without classes: told how much noise a picture has, it says which part is picture and which is
noise (the "velocity" of Salimans and Ho, ICLR 2022). It goes on from its last checkpoint. One thread, about an hour.
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
KEPT = 0.999  # of the averaged weights, in a step


class Block(nn.Module):
    """Two convolutions around which the signal may pass; the amount of noise scales and shifts between them."""

    def __init__(self, inside: int, outside: int, told: int) -> None:
        super().__init__()
        self.first_norm, self.second_norm = nn.GroupNorm(8, inside), nn.GroupNorm(8, outside)
        self.first = nn.Conv2d(inside, outside, 3, padding=1)
        self.second = nn.Conv2d(outside, outside, 3, padding=1)
        self.told = nn.Linear(told, 2 * outside)
        self.around = nn.Identity() if inside == outside else nn.Conv2d(inside, outside, 1)
        nn.init.zeros_(self.second.weight)

    def forward(self, x: Tensor, told: Tensor) -> Tensor:
        scale, shift = self.told(told)[..., None, None].chunk(2, dim=1)
        inner = self.first(functional.silu(self.first_norm(x)))
        inner = self.second(functional.silu(self.second_norm(inner) * (1 + scale) + shift))
        return self.around(x) + inner


class Drawer(nn.Module):
    """Pictures with noise [B, 3, 32, 32] and how far they are on the way to noise [B], 0 to 1 → the velocity."""

    def __init__(self, told: int = 128) -> None:
        super().__init__()
        fine, middle, coarse = WIDTHS
        self.told = nn.Sequential(nn.Linear(32, told), nn.SiLU(), nn.Linear(told, told), nn.SiLU())
        self.stem = nn.Conv2d(12, fine, 3, padding=1)
        self.down1, self.down2 = Block(fine, fine, told), Block(middle, middle, told)
        self.to_middle = nn.Conv2d(fine, middle, 3, 2, 1)
        self.to_coarse = nn.Conv2d(middle, coarse, 3, 2, 1)
        self.deep1, self.deep2 = Block(coarse, coarse, told), Block(coarse, coarse, told)
        self.up2, self.up1 = Block(coarse + middle, middle, told), Block(middle + fine, fine, told)
        self.norm, self.head = nn.GroupNorm(8, fine), nn.Conv2d(fine, 12, 3, padding=1)
        nn.init.zeros_(self.head.weight)

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        angles = time[:, None] * (math.pi / 2 * 2.0 ** (torch.arange(16) * 0.4))
        told = self.told(torch.cat([angles.sin(), angles.cos()], dim=1))
        fine = self.down1(self.stem(functional.pixel_unshuffle(x, 2)), told)
        middle = self.down2(self.to_middle(fine), told)
        coarse = self.deep2(self.deep1(self.to_coarse(middle), told), told)
        middle = self.up2(torch.cat([functional.interpolate(coarse, scale_factor=2.0), middle], dim=1), told)
        fine = self.up1(torch.cat([functional.interpolate(middle, scale_factor=2.0), fine], dim=1), told)
        return functional.pixel_shuffle(self.head(functional.silu(self.norm(fine))), 2)


def loss_of(model: Drawer, pictures: Tensor, random: torch.Generator) -> Tensor:
    """Add noise by a random amount, and ask for the velocity."""
    time = torch.rand(len(pictures), generator=random)
    noise = torch.randn(pictures.shape, generator=random)
    stays, comes = (f(time * math.pi / 2)[:, None, None, None] for f in (torch.cos, torch.sin))
    return functional.mse_loss(model(stays * pictures + comes * noise, time), stays * noise - comes * pictures)


def train(data: Path, out: Path, seed: int) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    pictures, _ = photographs.read(data, "train")
    model = Drawer().to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    mean = copy.deepcopy(model)
    each = len(pictures) // BATCH
    optimizer = torch.optim.AdamW(model.parameters(), lr=PEAK, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, PEAK, EPOCHS * each, pct_start=0.05)
    file, first = out / "drawer.pt", 0
    if file.exists():
        kept = torch.load(file, weights_only=True)
        first = kept.pop("epoch")
        for name, part in {"model": model, "mean": mean, "optimizer": optimizer, "schedule": schedule}.items():
            part.load_state_dict(kept[name])
    for epoch in range(first, EPOCHS):
        start, total = time.time(), 0.0
        random = torch.Generator().manual_seed(seed * 1000 + epoch)
        for chosen in torch.randperm(len(pictures), generator=random)[: each * BATCH].split(BATCH):
            batch = pictures[chosen].float() / 127.5 - 1
            batch = torch.where(torch.rand(BATCH, 1, 1, 1, generator=random) < 0.5, batch.flip(3), batch)
            loss = loss_of(model, batch.contiguous(memory_format=torch.channels_last), random)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            with torch.no_grad():
                for slow, now in zip(mean.parameters(), model.parameters(), strict=True):
                    slow.lerp_(now, 1 - KEPT)
            total += float(loss.detach()) / each
        parts = {"model": model, "mean": mean, "optimizer": optimizer, "schedule": schedule}
        torch.save({name: part.state_dict() for name, part in parts.items()} | {"epoch": epoch + 1}, out / "drawer.tmp")
        (out / "drawer.tmp").replace(file)
        print(f"drawer epoch {epoch + 1}/{EPOCHS}: loss {total:.4f}, {time.time() - start:.0f} s", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    train(given.data, given.out, given.seed)
