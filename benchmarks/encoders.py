"""Images per second of torch, ONNX and ONNX in int8, for models of real size with random weights.

    python benchmarks/encoders.py FOLDER [--rounds 7] [--batch 16] [--threads 2] [--json FILE]

Models and exports are kept in FOLDER and used again. The three ways take turns in one run, and their medians are
compared, so that other load on the machine affects all of them. Random weights have no accuracy; the cosine to torch
measures how well a graph reproduces its source.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from transformers import CLIPConfig, CLIPModel, Dinov2Config, Dinov2Model

from cosmic_tta.encoders import make_encoder
from cosmic_tta.encoders.base import Encoder
from cosmic_tta.encoders.clip_resnet_model import ClipResnet, ClipResnetSizes
from cosmic_tta.encoders.onnx_export import export_onnx
from cosmic_tta.encoders.onnx_samples import sample_images
from cosmic_tta.encoders.tokenizers.clip import END, LAST, START, byte_letters

VOCABULARY = 49_408
RN50 = ClipResnetSizes(1024, (3, 4, 6, 3), 64, 224, 77, VOCABULARY, 512, 12)


def write_tokenizer(folder: Path) -> None:
    """Write a vocabulary of CLIP's size: bytes, unused tokens, start and end; no merges."""
    letters = list(byte_letters().values())
    tokens = letters + [letter + LAST for letter in letters]
    tokens += [f"<{number}>" for number in range(VOCABULARY - len(tokens) - 2)] + [START, END]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.json").write_text(json.dumps({token: number for number, token in enumerate(tokens)}))
    (folder / "merges.txt").write_text("#version: 0.2\n")


def save_clip(folder: Path) -> None:
    vision: dict[str, Any] = {"patch_size": 16, "image_size": 224}
    text: dict[str, Any] = {"eos_token_id": VOCABULARY - 1, "bos_token_id": VOCABULARY - 2}
    write_tokenizer(folder)
    CLIPModel(CLIPConfig(vision_config=vision, text_config=text)).save_pretrained(folder)


def save_resnet(folder: Path) -> None:
    weights = {}
    for name, value in ClipResnet(RN50).state_dict().items():
        weight = torch.ones_like(value)
        if value.ndim > 1:
            weight = torch.randn(value.shape) / value[0].numel() ** 0.5
        elif name.endswith(("bias", "running_mean")):
            weight = torch.zeros_like(value)
        weights[name] = weight
    write_tokenizer(folder)
    save_file(weights, folder / "model.safetensors")


def save_dino(folder: Path) -> None:
    config = Dinov2Config(hidden_size=384, num_attention_heads=6, image_size=518, patch_size=14)
    Dinov2Model(config).save_pretrained(folder)


MODELS: dict[str, tuple[str, Callable[[Path], None]]] = {
    "CLIP ViT-B/16": ("hf", save_clip),
    "CLIP RN50": ("clip-resnet", save_resnet),
    "DINOv2 ViT-S/14": ("hf", save_dino),
}


def measure(name: str, root: Path, rounds: int, batch: int, threads: int) -> dict[str, Any]:
    family, save = MODELS[name]
    folder = root / name.replace(" ", "-").replace("/", "")
    if not folder.exists():
        torch.manual_seed(0)
        unfinished = folder.with_suffix(".unfinished")
        save(unfinished)
        unfinished.rename(folder)
    spec = f"{family}:{folder}"
    ways: dict[str, Encoder] = {"torch": make_encoder(spec, device="cpu", threads=threads)}
    for way in ("fp32", "int8"):
        target = folder.with_name(f"{folder.name}-{way}")
        if not target.exists():
            export_onnx(spec, target, int8=way == "int8")
        ways[way] = make_encoder(f"onnx:{target}", device="cpu", threads=threads)
    start = time.perf_counter()
    _ = ways["torch"].fingerprint
    row: dict[str, Any] = {"model": name, "fingerprint_seconds": time.perf_counter() - start}
    pixels = np.stack([ways["torch"].preprocessing.pixels(image) for image in sample_images(batch)])
    reference = ways["torch"].encode(pixels)
    times: dict[str, list[float]] = {way: [] for way in ways}
    for _round in range(rounds + 1):
        for way, encoder in ways.items():
            start = time.perf_counter()
            features = encoder.encode(pixels)
            times[way].append(time.perf_counter() - start)
            row[f"{way}_cosine"] = float((features * reference).sum(-1).min())
    for way, taken in times.items():
        row[f"{way}_images_per_second"] = batch / statistics.median(taken[1:])  # the first round warms up
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    rows = [measure(name, given.folder, given.rounds, given.batch, given.threads) for name in MODELS]
    print(f"images per second, {given.threads} threads, batches of {given.batch}, medians of {given.rounds} rounds")
    print(f"{'model':<17}{'torch':>8}{'ONNX fp32':>11}{'int8':>8}{'cosine fp32':>13}{'int8':>9}{'fingerprint':>13}")
    for row in rows:
        speeds = "".join(
            f"{row[f'{way}_images_per_second']:>{width}.1f}" for way, width in (("torch", 8), ("fp32", 11), ("int8", 8))
        )
        seconds = f"{row['fingerprint_seconds']:.2f} s"
        print(f"{row['model']:<17}{speeds}{row['fp32_cosine']:>13.6f}{row['int8_cosine']:>9.4f}{seconds:>13}")
    if given.json:
        given.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
