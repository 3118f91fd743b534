"""The `preprocessor_config.json` of a model as a `Preprocessing`.

Missing settings have the defaults of the named image processor. A model without the file has the defaults of its
kind, at its own image size. Settings that `Preprocessing` cannot express are refused: features of images that are
prepared differently would be worse, without any error.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cosmic_tta.core.errors import EncoderError
from cosmic_tta.data.images.preprocess import CLIP_MEAN, CLIP_STD, IMAGENET_MEAN, IMAGENET_STD, Preprocessing

RESAMPLING = {0: "nearest", 1: "lanczos", 2: "bilinear", 3: "bicubic"}  # Pillow's numbers
HALF = (0.5, 0.5, 0.5)
SHORTEST_EDGE, SQUARE = {"shortest_edge": 224}, {"height": 224, "width": 224}
OPENAI = {"resample": 3, "do_center_crop": True, "image_mean": CLIP_MEAN, "image_std": CLIP_STD, "size": SHORTEST_EDGE}
PROCESSORS: Mapping[str, Mapping[str, Any]] = {
    "CLIP": OPENAI | {"crop_size": 224},
    "Bit": OPENAI | {"crop_size": 224},
    "Siglip": {"resample": 3, "do_center_crop": False, "image_mean": HALF, "image_std": HALF, "size": SQUARE},
    "ViT": {"resample": 2, "do_center_crop": False, "image_mean": HALF, "image_std": HALF, "size": SQUARE},
    "DINOv3ViT": {
        "resample": 2,
        "do_center_crop": False,
        "image_mean": IMAGENET_MEAN,
        "image_std": IMAGENET_STD,
        "size": SQUARE,
    },
}
DINOV2 = OPENAI | {
    "size": {"shortest_edge": 256},
    "crop_size": 224,
    "image_mean": IMAGENET_MEAN,
    "image_std": IMAGENET_STD,
}
ENDINGS = ("ImageProcessorFast", "ImageProcessorPil", "ImageProcessor", "FeatureExtractor")


def read_settings(folder: Path) -> dict[str, Any] | None:
    """Read the settings of a model's image processor; None if it has none."""
    for name in ("preprocessor_config.json", "processor_config.json"):
        file = folder / name
        if not file.is_file():
            continue
        try:
            settings = json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise EncoderError(f"{str(file)!r} cannot be read as JSON: {error}") from error
        settings = settings.get("image_processor", settings) if isinstance(settings, dict) else None
        if not isinstance(settings, dict):
            raise EncoderError(f"{str(file)!r} must hold a JSON object.")
        if "size" in settings or "image_processor_type" in settings or "feature_extractor_type" in settings:
            return {key: value for key, value in settings.items() if value is not None}
    return None


def preprocessing_of(folder: Path, model_type: str, image_size: int) -> Preprocessing:
    """Return the preprocessing of a model.

    Args:
        folder: Folder of the model, with `preprocessor_config.json` if there is one.
        model_type: `clip`, `siglip`, `dinov2`, `dinov2_with_registers` or `dinov3_vit`; decides the defaults.
        image_size: Edge of the images that a CLIP or SigLIP model takes; DINO models take any.
    """
    settings = read_settings(folder)
    if settings is None:
        return translate(_defaults(model_type, image_size), str(folder))
    processor = settings.get("image_processor_type") or settings.get("feature_extractor_type")
    if processor is None:
        return translate({**_defaults(model_type, image_size), **settings}, str(folder))
    kind = str(processor)
    for ending in ENDINGS:
        kind = kind.removesuffix(ending)
    if kind not in PROCESSORS:
        known = ", ".join(f"{name}ImageProcessor" for name in PROCESSORS)
        raise EncoderError(f"{str(folder)!r} needs the image processor {processor}; supported are {known}.")
    return translate({**PROCESSORS[kind], **settings}, str(folder))


def _defaults(model_type: str, image_size: int) -> dict[str, Any]:
    if model_type.startswith("dinov2"):
        return dict(DINOV2)
    if model_type == "dinov3_vit":
        return dict(PROCESSORS["DINOv3ViT"])
    edges = {"height": image_size, "width": image_size}
    if model_type == "siglip":
        return {**PROCESSORS["Siglip"], "size": edges}
    return {**PROCESSORS["CLIP"], "size": {"shortest_edge": image_size}, "crop_size": edges}


def translate(settings: Mapping[str, Any], model: str) -> Preprocessing:
    """Translate the settings of an image processor; those without a counterpart are refused."""

    def unsupported(problem: str, supported: str) -> EncoderError:
        return EncoderError(f"{model}: the image processor's {problem}; only {supported} is supported.")

    for flag in ("do_resize", "do_rescale"):
        if settings.get(flag) is False:
            raise unsupported(f"{flag} is off", "resizing and rescaling")
    if settings.get("do_pad"):
        raise unsupported("do_pad is on", "no padding")
    factor = settings.get("rescale_factor", 1 / 255)
    if not isinstance(factor, (int, float)) or abs(factor * 255 - 1) > 1e-4:
        raise unsupported(f"rescale_factor is {factor!r}", "1/255")
    resample = settings["resample"]
    if resample not in RESAMPLING:
        known = ", ".join(f"{key} ({name})" for key, name in RESAMPLING.items())
        raise unsupported(f"resample is {resample!r}", f"one of {known}")
    crops = bool(settings.get("do_center_crop"))
    size = settings["size"]
    if isinstance(size, int):  # older files: the shorter edge if a crop follows
        size = {"shortest_edge": size} if crops else {"height": size, "width": size}
    size = {edge: length for edge, length in size.items() if length is not None}
    resize: int | tuple[int, int]
    if set(size) == {"shortest_edge"}:
        resize = int(size["shortest_edge"])
    elif set(size) == {"height", "width"}:
        resize = (int(size["height"]), int(size["width"]))
    else:
        raise unsupported(f"size is {size!r}", "a shortest_edge, or height and width")
    output = _crop(settings["crop_size"]) if crops else resize
    if isinstance(output, int):
        raise unsupported("size is a shortest_edge without a crop", "an output of one size")
    smallest = (resize, resize) if isinstance(resize, int) else resize
    if output[0] > smallest[0] or output[1] > smallest[1]:
        raise unsupported(f"crop {output} is larger than the resized image {smallest}", "a crop that fits")
    normalise = settings.get("do_normalize", True)
    mean = _three(settings["image_mean"]) if normalise else (0.0, 0.0, 0.0)
    std = _three(settings["image_std"]) if normalise else (1.0, 1.0, 1.0)
    return Preprocessing(size=output, resize=resize, mean=mean, std=std, resample=RESAMPLING[resample], middle="floor")


def _crop(size: Any) -> tuple[int, int]:
    return (size, size) if isinstance(size, int) else (int(size["height"]), int(size["width"]))


def _three(values: Any) -> tuple[float, float, float]:
    one, two, three = values if not isinstance(values, (int, float)) else (values,) * 3
    return float(one), float(two), float(three)
