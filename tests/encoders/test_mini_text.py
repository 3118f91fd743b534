from __future__ import annotations

import numpy as np
import pytest

from cosmic_tta.encoders import make_clip, make_tower

pytest.importorskip("torch")
pytest.importorskip("onnx")
pytestmark = pytest.mark.torch

CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")


def test_the_torch_module_gives_the_features_of_the_graph() -> None:
    tower = make_tower("mini:clip", CLASSES, device="cpu")
    plain = make_clip("mini:clip").encode_texts([f"a photo of a {name}" for name in CLASSES])
    np.testing.assert_allclose(tower.texts(tower.opening("a photo of a")), plain, atol=1e-4)
