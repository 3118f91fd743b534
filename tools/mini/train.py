"""Train the embedded encoders on CIFAR-10: `python tools/mini/train.py clip|dino --data FOLDER --out FOLDER`.

`clip` learns from images and sentences; `dino` learns from images without labels (SimCLR's two views, with the
decoupled contrastive loss). Training resumes from the last checkpoint. `dino` takes about an hour on two cores with
`--bfloat16`. Processors without bfloat16 take two to three times as long; leave the option out there.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable
from pathlib import Path

import augment
import photographs
import torch
import words
from networks import ImageTower, TextTower
from torch import Tensor, nn
from torch.nn import functional

BATCH = {"clip": 256, "dino": 512}
EPOCHS = {"clip": 24, "dino": 108}
SMALL_EPOCHS = 100  # of `dino`, with views of 24 pixels, which halves the cost
DINO_WIDTHS = (64, 128, 256)
TEMPERATURE = 0.2


class Clip(nn.Module):
    """Contrasts images with one random sentence per class."""

    def __init__(self) -> None:
        super().__init__()
        self.known = {word: number for number, word in enumerate(words.vocabulary())}
        self.image, self.text = ImageTower(), TextTower(len(self.known), words.MAX_WORDS)
        self.log_scale = nn.Parameter(torch.tensor(math.log(10.0)))

    def loss(self, images: Tensor, labels: Tensor, epoch: int, random: torch.Generator) -> Tensor:
        views = augment.shifted(images, 4, random)
        image = functional.normalize(self.image(as_channels_last(views)))
        text = functional.normalize(self.text(words.sample(self.known, random)))
        return functional.cross_entropy(
            self.log_scale.exp().clamp(max=100) * image @ text.T, labels, label_smoothing=0.05
        )


class Dino(nn.Module):
    """Contrasts two views of an image with those of all other images in the batch."""

    def __init__(self, *, bfloat16: bool = False) -> None:
        super().__init__()
        self.in_bfloat16 = bfloat16
        self.image = ImageTower(DINO_WIDTHS)
        width = self.image.width
        self.head = nn.Sequential(nn.Linear(width, 512), nn.BatchNorm1d(512), nn.ReLU(), nn.Linear(512, 128))

    def loss(self, images: Tensor, _: Tensor, epoch: int, random: torch.Generator) -> Tensor:
        size = 24 if epoch < SMALL_EPOCHS else 32
        views = torch.cat([self.view(images, size, random) for _ in range(2)])
        with torch.autocast("cpu", torch.bfloat16, enabled=self.in_bfloat16):
            rows = self.head(self.image.pooled(as_channels_last(views)))
        rows = functional.normalize(rows.float())  # [2B, 128]
        count = len(images)
        logits = rows @ rows.T / TEMPERATURE
        other = (torch.arange(2 * count) + count) % (2 * count)
        positive = logits[torch.arange(2 * count), other]
        itself = torch.arange(2 * count)
        logits = logits.index_put((itself, itself), torch.tensor(-1e9)).index_put((itself, other), torch.tensor(-1e9))
        return (logits.logsumexp(1) - positive).mean()

    @staticmethod
    def view(images: Tensor, size: int, random: torch.Generator) -> Tensor:
        crops = augment.colours(augment.crops(images, 0.2, size, random), 0.5, 0.2, random)
        return augment.blurred(crops, 0.3, random)


def as_channels_last(images: Tensor) -> Tensor:
    return images.contiguous(memory_format=torch.channels_last)


def train(kind: str, data: Path, out: Path, seed: int, threads: int, bfloat16: bool) -> None:
    torch.set_num_threads(threads)
    torch.manual_seed(seed)
    images, labels = photographs.read(data, "train")
    model: Clip | Dino = Clip() if kind == "clip" else Dino(bfloat16=bfloat16)
    model = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    steps = EPOCHS[kind] * (len(images) // BATCH[kind])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4, nesterov=True)
    peak = {"clip": 0.1, "dino": 0.12}[kind]

    def rate(step: int) -> float:
        warm = steps * 0.05
        return (
            peak * 10 * (step / warm if step < warm else 0.5 * (1 + math.cos(math.pi * (step - warm) / (steps - warm))))
        )

    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, rate)
    file, first = out / f"{kind}.pt", 0
    if file.exists():
        checkpoint = torch.load(file, weights_only=True)
        model.load_state_dict(checkpoint["model"])
        optimizer.load_state_dict(checkpoint["optimizer"])
        schedule.load_state_dict(checkpoint["schedule"])
        first = checkpoint["epoch"]
    for epoch in range(first, EPOCHS[kind]):
        start, total = time.time(), 0.0
        random = torch.Generator().manual_seed(seed * 1000 + epoch)
        order = torch.randperm(len(images), generator=random)
        model.train()
        for chosen in order[: len(order) // BATCH[kind] * BATCH[kind]].split(BATCH[kind]):
            loss = model.loss(images[chosen].float() / 255, labels[chosen], epoch, random)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            total += float(loss.detach()) * BATCH[kind] / len(order)
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "schedule": schedule.state_dict()}
        torch.save(state | {"epoch": epoch + 1}, file.with_suffix(".tmp"))
        file.with_suffix(".tmp").replace(file)
        last = epoch + 1 == EPOCHS[kind]
        accuracy = measured(model, data, full=last) if last or epoch % 8 == 3 else ""
        seconds = time.time() - start
        print(f"{kind} epoch {epoch + 1}/{EPOCHS[kind]}: loss {total:.3f}, {seconds:.0f} s {accuracy}", flush=True)


@torch.inference_mode()
def measured(model: Clip | Dino, data: Path, *, full: bool) -> str:
    """Return the accuracy on the test images: zero-shot, or by the 20 nearest neighbours in the training images."""
    model.eval()
    images, labels = photographs.read(data, "test")
    if isinstance(model, Clip):
        text = functional.normalize(model.text(words.plain(model.known)))
        predicted = (_features(model.image, images) @ text.T).argmax(1)
        return f"zero-shot {(predicted == labels).float().mean():.4f}"
    bank, bank_labels = photographs.read(data, "train")
    count = len(bank) if full else 5000
    rows = functional.normalize(_features(model.image.pooled, bank[:count]))
    queries = functional.normalize(_features(model.image.pooled, images))
    correct = 0
    for part, wanted in zip(queries.split(1000), labels.split(1000), strict=True):
        nearest = (part @ rows.T).topk(20)
        votes = torch.zeros(len(part), 10).scatter_add_(1, bank_labels[nearest.indices], (nearest.values / 0.1).exp())
        correct += int((votes.argmax(1) == wanted).sum())
    return f"20 nearest of {count}: {correct / len(labels):.4f}"


def _features(tower: Callable[[Tensor], Tensor], images: Tensor) -> Tensor:
    return torch.cat([tower(as_channels_last(part.float() / 255)) for part in images.split(1000)])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=("clip", "dino"))
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--bfloat16", action="store_true")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    train(given.kind, given.data, given.out, given.seed, given.threads, given.bfloat16)
