from __future__ import annotations

import numpy as np

from cosmic_tta.encoders.onnx_samples import sample_images, sample_sentences


def test_samples_are_always_the_same_and_all_different() -> None:
    images = sample_images(6)
    assert [image.tobytes() for image in images] == [image.tobytes() for image in sample_images(6)]
    assert len({image.tobytes() for image in [*images, *sample_images(6, seed=1)]}) == 12
    assert all(np.asarray(image).std() > 1 for image in images)


def test_sentences_differ() -> None:
    assert len(set(sample_sentences())) == 16
