"""A model's preprocessor_config.json as our `Preprocessing`.

What a setting leaves out is what the named image processor takes by default; a model without the file gets the
defaults of its kind at its own picture size. What we cannot do as told is refused: features of pictures that were
prepared otherwise would be silently worse.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cosmic_tta.errors import EncoderError
from cosmic_tta.preprocessing import CLIP_MEAN, CLIP_STD, IMAGENET_MEAN, IMAGENET_STD, Preprocessing

RESAMPLING = {0: "nearest", 1: "lanczos", 2: "bilinear", 3: "bicubic"}  # Pillow's numbers
HALF = (0.5, 0.5, 0.5)
SHORT, SQUARE = {"shortest_edge": 224}, {"height": 224, "width": 224}
OPENAI = {"resample": 3, "do_center_crop": True, "image_mean": CLIP_MEAN, "image_std": CLIP_STD, "size": SHORT}
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
    """Read the settings of a model's image processor; None if there are none."""
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
    """Return what is done to pictures before a model sees them.

    Args:
        folder: where preprocessor_config.json lies, if there is one.
        model_type: `clip`, `siglip`, `dinov2`, `dinov2_with_registers` or `dinov3_vit`: whose defaults hold.
        image_size: edge of the pictures that a CLIP or SigLIP model takes; DINO models take any.
    """
    settings = read_settings(folder)
    if settings is None:
        return translate(_defaults(model_type, image_size), str(folder))
    told = settings.get("image_processor_type") or settings.get("feature_extractor_type")
    if told is None:
        return translate({**_defaults(model_type, image_size), **settings}, str(folder))
    kind = str(told)
    for ending in ENDINGS:
        kind = kind.removesuffix(ending)
    if kind not in PROCESSORS:
        known = ", ".join(f"{name}ImageProcessor" for name in PROCESSORS)
        raise EncoderError(f"{str(folder)!r} wants its pictures prepared by {told}; we can do as {known} do.")
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


def translate(settings: Mapping[str, Any], where: str) -> Preprocessing:
    """Turn an image processor's settings into ours, or refuse what has no counterpart."""

    def refuse(what: str, wanted: str) -> EncoderError:
        return EncoderError(f"{where}: the image processor's {what}; we can only do {wanted}.")

    for flag in ("do_resize", "do_rescale"):
        if settings.get(flag) is False:
            raise refuse(f"{flag} is off", "what resizes and rescales")
    if settings.get("do_pad"):
        raise refuse("do_pad is on", "what does not pad")
    factor = settings.get("rescale_factor", 1 / 255)
    if not isinstance(factor, (int, float)) or abs(factor * 255 - 1) > 1e-4:
        raise refuse(f"rescale_factor is {factor!r}", "1/255")
    resample = settings["resample"]
    if resample not in RESAMPLING:
        raise refuse(f"resample is {resample!r}", ", ".join(f"{key} ({name})" for key, name in RESAMPLING.items()))
    crops = bool(settings.get("do_center_crop"))
    size = settings["size"]
    if isinstance(size, int):  # older files: the shorter edge where a crop follows
        size = {"shortest_edge": size} if crops else {"height": size, "width": size}
    size = {edge: length for edge, length in size.items() if length is not None}
    resize: int | tuple[int, int]
    if set(size) == {"shortest_edge"}:
        resize = int(size["shortest_edge"])
    elif set(size) == {"height", "width"}:
        resize = (int(size["height"]), int(size["width"]))
    else:
        raise refuse(f"size is {size!r}", "a shortest_edge, or height and width")
    seen = _crop(settings["crop_size"]) if crops else resize
    if isinstance(seen, int):
        raise refuse("size is a shortest_edge without a crop", "pictures that come out in one size")
    least = (resize, resize) if isinstance(resize, int) else resize
    if seen[0] > least[0] or seen[1] > least[1]:
        raise refuse(f"crop {seen} is larger than the resized picture {least}", "crops that fit")
    normalise = settings.get("do_normalize", True)
    mean = _three(settings["image_mean"]) if normalise else (0.0, 0.0, 0.0)
    std = _three(settings["image_std"]) if normalise else (1.0, 1.0, 1.0)
    return Preprocessing(size=seen, resize=resize, mean=mean, std=std, resample=RESAMPLING[resample], middle="floor")


def _crop(size: Any) -> tuple[int, int]:
    return (size, size) if isinstance(size, int) else (int(size["height"]), int(size["width"]))


def _three(values: Any) -> tuple[float, float, float]:
    one, two, three = values if not isinstance(values, (int, float)) else (values,) * 3
    return float(one), float(two), float(three)
