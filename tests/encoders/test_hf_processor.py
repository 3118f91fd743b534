"""Our preprocessing against the image processors of transformers, on images of odd sizes and modes."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from cosmic_tta.core.errors import EncoderError
from cosmic_tta.data.images.decode import open_image
from cosmic_tta.data.images.preprocess import Preprocessing
from cosmic_tta.encoders.hf_processor import preprocessing_of, translate

transformers = pytest.importorskip("transformers")
tiny = pytest.importorskip("tests.support.tiny_encoders")
pytestmark = pytest.mark.torch


IMAGENET = {"image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225]}


CONFIGS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "clip": ("clip", "CLIPImageProcessorPil", {}),
    "clip-336": ("clip", "CLIPImageProcessorPil", {"size": {"shortest_edge": 336}, "crop_size": 336}),
    "clip-old": ("clip", "CLIPImageProcessorPil", {"size": 224, "crop_size": 224}),
    "siglip": ("siglip", "SiglipImageProcessorPil", {"resample": 3}),
    "siglip-256": ("siglip", "SiglipImageProcessorPil", {"size": {"height": 256, "width": 256}, "resample": 2}),
    "dinov2": ("dinov2", "BitImageProcessorPil", {**IMAGENET, "size": {"shortest_edge": 256}, "crop_size": 224}),
}


MODES = {"CMYK": "JPEG", "L": "PNG", "RGBA": "PNG", "P": "PNG", "LA": "PNG", "1": "PNG"}


def as_file(name: str, image: Image.Image) -> bytes:
    written = io.BytesIO()
    image.save(written, MODES.get(name, "JPEG" if len(name) % 2 else "PNG"))
    return written.getvalue()


FILES = {name: as_file(name, image) for name, image in tiny.odd_images().items()}


@pytest.mark.parametrize("config", CONFIGS)
def test_images_become_what_the_image_processors_make_of_them(config: str, tmp_path: Path) -> None:
    model_type, kind, settings = CONFIGS[config]
    processor = getattr(transformers, kind)(**settings)
    processor.save_pretrained(tmp_path)
    ours = preprocessing_of(tmp_path, model_type, 224)
    assert len(FILES) >= 20
    for name, data in FILES.items():
        wanted = processor(Image.open(io.BytesIO(data)).convert("RGB"), return_tensors="np")["pixel_values"][0]
        numbers = ours.normalise(ours.pixels(open_image(data))[None])[0]
        assert numbers.shape == wanted.shape
        # In grey levels: a level is 1/255 over the standard deviation.
        levels = abs(numbers - wanted) * 255 * np.array(ours.std)[:, None, None]
        assert levels.max() <= 1.001, (name, levels.max())
        if max(Image.open(io.BytesIO(data)).size) < 16 * min(Image.open(io.BytesIO(data)).size):
            assert levels.max() < 0.01, name  # only what is very long is cropped before it is resized


def test_files_of_preprocessors_as_they_lie_on_the_hub_are_read(tmp_path: Path) -> None:
    old: dict[str, Any] = {
        "crop_size": 224,
        "do_center_crop": True,
        "do_normalize": True,
        "do_resize": True,
        "resample": 3,
        "size": 224,
    }
    old |= {
        "feature_extractor_type": "CLIPFeatureExtractor",
        "image_mean": [0.4, 0.4, 0.4],
        "image_std": [0.2, 0.2, 0.2],
    }
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(old))
    made = preprocessing_of(tmp_path, "clip", 224)
    assert made == Preprocessing((224, 224), 224, (0.4, 0.4, 0.4), (0.2, 0.2, 0.2))
    (tmp_path / "preprocessor_config.json").unlink()
    nested = {"image_processor": {"image_processor_type": "SiglipImageProcessor", "size": {"height": 64, "width": 48}}}
    (tmp_path / "processor_config.json").write_text(json.dumps(nested))
    assert preprocessing_of(tmp_path, "siglip", 64).size == (64, 48)


def test_without_a_file_the_defaults_of_the_kind_hold(tmp_path: Path) -> None:
    assert preprocessing_of(tmp_path, "clip", 336).resize == 336
    assert preprocessing_of(tmp_path, "siglip", 384).resize == (384, 384)
    dino = preprocessing_of(tmp_path, "dinov2_with_registers", 518)
    assert (dino.resize, dino.size, dino.mean) == (256, (224, 224), (0.485, 0.456, 0.406))
    assert preprocessing_of(tmp_path, "dinov3_vit", 224).resample == "bilinear"


def test_dinov3_is_resized_in_eight_bits_within_a_grey_level_of_its_own_float_arithmetic(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    ours = preprocessing_of(tmp_path, "dinov3_vit", 224)
    for name, data in FILES.items():
        image = open_image(data)
        # Its processor rescales first and then resizes floats, bilinear with antialiasing.
        numbers = torch.from_numpy(np.asarray(image).copy()).permute(2, 0, 1)[None].float()
        wanted = torch.nn.functional.interpolate(numbers, (224, 224), mode="bilinear", antialias=True)[0]
        assert abs(ours.pixels(image) - wanted.permute(1, 2, 0).numpy()).max() <= 1.001, name


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"do_resize": False}, "do_resize is off"),
        ({"do_rescale": False}, "do_rescale is off"),
        ({"do_pad": True}, "do_pad is on"),
        ({"rescale_factor": 1.0}, "rescale_factor is 1.0"),
        ({"resample": 5}, "resample is 5"),
        ({"size": {"longest_edge": 5}}, "size is"),
        ({"do_center_crop": False}, "without a crop"),
        ({"crop_size": 300}, "larger than the resized image"),
    ],
)
def test_what_we_cannot_do_is_refused(settings: dict[str, Any], message: str, tmp_path: Path) -> None:
    (tmp_path / "preprocessor_config.json").write_text(
        json.dumps({"image_processor_type": "CLIPImageProcessor", **settings})
    )
    with pytest.raises(EncoderError, match=message):
        preprocessing_of(tmp_path, "clip", 224)


def test_an_unknown_processor_and_a_damaged_file_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "preprocessor_config.json"
    file.write_text(json.dumps({"image_processor_type": "Siglip2ImageProcessor"}))
    with pytest.raises(EncoderError, match="Siglip2ImageProcessor; supported are"):
        preprocessing_of(tmp_path, "siglip", 224)
    for text in ("{", "[]"):
        file.write_text(text)
        with pytest.raises(EncoderError, match="JSON"):
            preprocessing_of(tmp_path, "siglip", 224)


def test_images_need_not_be_normalised() -> None:
    settings = {"size": 8, "crop_size": 8, "resample": 0, "do_center_crop": True, "do_normalize": False}
    made = translate(settings, "here")
    white = made.normalise(np.full((1, 8, 8, 3), 255, np.uint8))
    np.testing.assert_allclose(white, 1, atol=1e-6)
