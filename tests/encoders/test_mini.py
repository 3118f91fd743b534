from __future__ import annotations

import numpy as np
import pytest

from cosmic_tta.core.errors import EncoderError, UnknownNameError
from cosmic_tta.data.datasets.embedded import photographs
from cosmic_tta.data.images.decode import open_image
from cosmic_tta.encoders import Encoder, make_clip, make_encoder, make_tower


def encoded(encoder: Encoder, count: int) -> np.ndarray:
    images = [open_image(item.read()) for item in photographs().items[:count]]
    return encoder.encode(np.stack([encoder.preprocessing.pixels(image) for image in images]))


def test_the_embedded_clip_classifies_photographs() -> None:
    clip, data = make_clip("mini:clip"), photographs()
    texts = clip.encode_texts([f"a photo of a {name}" for name in data.class_names])
    predicted = (encoded(clip, 200) @ texts.T).argmax(axis=1)
    accuracy = np.mean(predicted == [item.label for item in data.items[:200]])
    assert accuracy > 0.75


def test_the_embedded_image_encoder_separates_the_classes() -> None:
    features = encoded(make_encoder("mini:dino"), 200)
    labels = np.array([item.label for item in photographs().items[:200]])
    np.testing.assert_allclose(np.linalg.norm(features, axis=1), 1, atol=1e-5)
    similarity = features @ features.T
    np.fill_diagonal(similarity, -1)
    assert np.mean(labels[similarity.argmax(axis=1)] == labels) > 0.5


def test_other_names_are_refused() -> None:
    with pytest.raises(UnknownNameError, match="unknown embedded model 'clap': did you mean 'clip'"):
        make_encoder("mini:clap")


@pytest.mark.torch
def test_only_the_clip_has_a_text_tower() -> None:
    pytest.importorskip("torch")
    pytest.importorskip("onnx")
    with pytest.raises(EncoderError, match="mini:dino has no text tower; mini:clip has one"):
        make_tower("mini:dino", ["cat"])
