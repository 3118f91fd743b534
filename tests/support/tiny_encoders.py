"""Small models with random weights, saved as the real ones are, for the tests of the encoders."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from transformers import (
    CLIPConfig,
    CLIPModel,
    Dinov2Config,
    Dinov2Model,
    Dinov2WithRegistersConfig,
    Dinov2WithRegistersModel,
    DINOv3ViTConfig,
    DINOv3ViTModel,
    SiglipConfig,
    SiglipModel,
)

from cosmic_tta.encoders.clip_resnet_model import ClipResnet, ClipResnetSizes
from cosmic_tta.encoders.onnx_samples import sample_images
from cosmic_tta.encoders.tokenizers.clip import END, LAST, START, byte_letters

LAYERS: dict[str, Any] = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 1, "num_attention_heads": 2}
MERGES = [
    "t h",
    "th e</w>",
    "c a",
    "ca t</w>",
    "p h",
    "ph o",
    "pho t",
    "phot o</w>",
    "o f</w>",
    "d o",
    "do g</w>",
    "a n",
]
TINY = ClipResnetSizes(
    dim=32, layers=(1, 2, 1, 1), width=8, resolution=64, context=16, vocabulary=526, text_width=64, text_layers=2
)
TINIEST = replace(TINY, layers=(1, 1, 1, 1), text_layers=1)
SAMPLES = ["a photo of a cat.", "the dog's 42 toys", "", "ÜBER straße — naïve café 東京 🎉", "photo " * 40]


def write_clip_tokenizer(folder: Path) -> None:
    """Write 256 bytes, the same at a word's end, a few merges, start and end, in that order."""
    letters = list(byte_letters().values())
    tokens = [
        *letters,
        *(letter + LAST for letter in letters),
        *(merge.replace(" ", "") for merge in MERGES),
        START,
        END,
    ]
    folder.mkdir(parents=True, exist_ok=True)
    vocabulary = {token: number for number, token in enumerate(tokens)}
    (folder / "vocab.json").write_text(json.dumps(vocabulary, ensure_ascii=False), encoding="utf-8")
    (folder / "merges.txt").write_text("\n".join(["#version: 0.2", *MERGES, ""]), encoding="utf-8")


def write_siglip_tokenizer(folder: Path) -> None:
    """Write a unigram tokenizer as SigLIP's: pieces, then the end token, which pads too."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    pieces = ["<pad>", "</s>", "<unk>", "▁a", "▁photo", "▁of", "▁cat", "▁dog", "▁", *"abcdefghijklmnopqrstuvwxyz"]
    made = Tokenizer(models.Unigram([(piece, -float(n)) for n, piece in enumerate(pieces)], unk_id=2))
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    made.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    folder.mkdir(parents=True, exist_ok=True)
    made.save(str(folder / "tokenizer.json"))
    settings = {"tokenizer_class": "SiglipTokenizer", "pad_token": "</s>", "eos_token": "</s>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))


def write_settings(folder: Path, **settings: Any) -> None:
    (folder / "preprocessor_config.json").write_text(json.dumps(settings))


CROPPED = {
    "image_processor_type": "CLIPImageProcessor",
    "size": {"shortest_edge": 32},
    "crop_size": {"height": 32, "width": 32},
    "resample": 3,
}


def save_clip(folder: Path) -> Path:
    torch.manual_seed(0)
    text = {**LAYERS, "vocab_size": 526, "max_position_embeddings": 16, "eos_token_id": 525, "bos_token_id": 524}
    vision = {**LAYERS, "image_size": 32, "patch_size": 8}
    config = CLIPConfig(text_config=text, vision_config=vision, projection_dim=48)
    randomised(CLIPModel(config)).save_pretrained(folder)
    write_clip_tokenizer(folder)
    write_settings(folder, **CROPPED)
    return folder


def save_siglip(folder: Path) -> Path:
    torch.manual_seed(1)
    text = {**LAYERS, "vocab_size": 35, "max_position_embeddings": 12}
    vision = {**LAYERS, "image_size": 32, "patch_size": 8}
    randomised(SiglipModel(SiglipConfig(text_config=text, vision_config=vision))).save_pretrained(folder)
    write_siglip_tokenizer(folder)
    write_settings(folder, image_processor_type="SiglipImageProcessor", size={"height": 32, "width": 32}, resample=3)
    return folder


DINO: dict[str, Any] = {
    "image_size": 56,
    "patch_size": 14,
    "hidden_size": 64,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
}
DINO_SETTINGS = {
    "image_processor_type": "BitImageProcessor",
    "size": {"shortest_edge": 36},
    "crop_size": {"height": 28, "width": 28},
    "resample": 3,
    "image_mean": [0.485, 0.456, 0.406],
    "image_std": [0.229, 0.224, 0.225],
}


def save_dinov2(folder: Path) -> Path:
    torch.manual_seed(2)
    randomised(Dinov2Model(Dinov2Config(**DINO))).save_pretrained(folder)
    write_settings(folder, **DINO_SETTINGS)
    return folder


def save_dinov2_registers(folder: Path) -> Path:
    torch.manual_seed(3)
    randomised(Dinov2WithRegistersModel(Dinov2WithRegistersConfig(**DINO, num_register_tokens=4))).save_pretrained(
        folder
    )
    write_settings(folder, **DINO_SETTINGS)
    return folder


def save_dinov3(folder: Path) -> Path:
    torch.manual_seed(4)
    config = DINOv3ViTConfig(**LAYERS, image_size=32, patch_size=8, num_register_tokens=4)
    randomised(DINOv3ViTModel(config)).save_pretrained(folder)
    write_settings(folder, image_processor_type="DINOv3ViTImageProcessorFast", size={"height": 32, "width": 32})
    return folder


HF: dict[str, Callable[[Path], Path]] = {
    "clip": save_clip,
    "siglip": save_siglip,
    "dinov2": save_dinov2,
    "dinov2_with_registers": save_dinov2_registers,
    "dinov3_vit": save_dinov3,
}


def randomised(model: Any) -> Any:
    """Spread the weights out: as they are made, norms and biases are plain and features nearly constant."""
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for name, value in model.named_parameters():
            if name.startswith("logit_"):
                continue
            value += 0.05 * torch.randn(value.shape, generator=generator)
    return model.eval()


def clip_resnet_weights(sizes: ClipResnetSizes = TINY, seed: int = 0) -> dict[str, torch.Tensor]:
    """Return random weights under the published names, scaled so that no layer dies or explodes."""
    generator = torch.Generator().manual_seed(seed)
    weights = {}
    for name, value in ClipResnet(sizes).state_dict().items():
        spread = 1 / max(1, value[0].numel()) ** 0.5 if value.ndim > 1 else 0.2
        if value.dtype == torch.float32:
            value = torch.randn(value.shape, generator=generator) * spread
        if name.endswith("running_var"):
            value = value.abs() + 0.5
        elif name.endswith("weight") and value.ndim == 1:
            value = value + 1
        weights[name] = value
    weights["logit_scale"] = torch.tensor(4.0)
    return weights


def save_clip_resnet(folder: Path, sizes: ClipResnetSizes = TINY) -> Path:
    from safetensors.torch import save_file

    write_clip_tokenizer(folder)
    save_file(clip_resnet_weights(sizes), folder / "model.safetensors")
    return folder


def pixels_for(encoder: Any, count: int = 4) -> NDArray[np.uint8]:
    return np.stack([encoder.preprocessing.pixels(image) for image in sample_images(count)])


def odd_images() -> dict[str, Image.Image]:
    """Images of many sizes and modes, with edges, fades and grain."""
    sizes = [(1, 37), (37, 1), (223, 225), (640, 427), (427, 640), (5, 3), (224, 224), (225, 224), (300, 17), (64, 64)]
    sizes += [(100, 1000), (999, 333), (2, 2), (511, 513), (333, 222), (1, 1)]
    samples = sample_images(len(sizes), seed=1)
    made = {f"{w}x{h}": image.resize((w, h)) for (w, h), image in zip(sizes, samples, strict=True)}
    for mode, image in zip(("L", "RGBA", "P", "LA", "CMYK", "1"), sample_images(6, seed=2), strict=True):
        made[mode] = image.convert("L").convert("LA") if mode == "LA" else image.convert(mode)
    alpha = np.tile(np.arange(256, dtype=np.uint8), (made["RGBA"].height, 3))[:, : made["RGBA"].width]
    made["RGBA"].putalpha(Image.fromarray(np.ascontiguousarray(alpha)).resize(made["RGBA"].size))
    return made
