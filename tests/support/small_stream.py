"""A generated pack for tests of streams."""

from __future__ import annotations

import numpy as np

from cosmic_tta.core.arrays import as_float32, unit
from cosmic_tta.evaluation.streams.stream import EvaluationStream
from cosmic_tta.features.pack import FeaturePack

LABELS = np.random.default_rng(0).permutation(np.repeat(np.arange(10), 40))


def generate_pack(labels: np.ndarray[tuple[int], np.dtype[np.int64]] = LABELS, scale: float = 30.0) -> FeaturePack:
    """Generate images around their class texts. Some are nearer to another text."""
    rng = np.random.default_rng(1)
    text = unit(as_float32(rng.standard_normal((10, 16))))
    clip = unit(as_float32(text[labels][:, None] + 0.35 * rng.standard_normal((len(labels), 3, 16))))
    aux = unit(as_float32(rng.standard_normal((len(labels), 6))))
    return FeaturePack("generated", tuple("abcdefghij"), clip, text, aux, labels, logit_scale=scale)


PACK = generate_pack()


def labels_of(stream: EvaluationStream) -> list[int]:
    """Return the labels of a stream that has labels."""
    assert stream.labels is not None
    return [int(label) for label in stream.labels]
