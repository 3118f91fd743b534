"""The adapter for open_clip: with a small stand-in everywhere, with the package itself where it loads."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from cosmic_tta.core.errors import EncoderError, UnknownNameError
from cosmic_tta.encoders import ClipEncoder
from cosmic_tta.encoders.base import EncoderOptions

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch
ADAPTER = "cosmic_tta.encoders.open_clip"


class Visual(torch.nn.Module):  # type: ignore[misc, name-defined]
    """Cells of eight pixels, their mean the feature."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 6, 8, stride=8)
        self.proj = torch.nn.Parameter(torch.randn(6, 5))

    def forward_intermediates(self, numbers: Any, **settings: Any) -> dict[str, Any]:
        assert settings == {"indices": 1, "normalize_intermediates": True, "output_fmt": "NCHW"}
        grid = self.conv(numbers)
        return {"image_features": grid.mean((2, 3)) @ self.proj, "image_intermediates": [grid]}


class Model(torch.nn.Module):  # type: ignore[misc, name-defined]
    def __init__(self) -> None:
        super().__init__()
        self.visual, self.words = Visual(), torch.nn.Embedding(300, 5)
        self.logit_scale = torch.nn.Parameter(torch.tensor(3.0))

    def encode_text(self, ids: Any) -> Any:
        return self.words(ids).sum(1)


@pytest.fixture
def adapter(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Import the adapter on a stand-in for open_clip."""
    stand_in: Any = ModuleType("open_clip")
    stand_in.asked = []

    def create_model(name: str, **settings: Any) -> Model:
        stand_in.asked.append((name, settings))
        if settings["pretrained"] == "absent":
            raise RuntimeError("weights absent are not known")
        torch.manual_seed(0)
        return Model()

    stand_in.create_model = create_model
    stand_in.list_models = lambda: ["ViT-B-16", "RN50"]
    stand_in.list_pretrained_tags_by_model = lambda _: ["openai", "laion400m_e32"]
    stand_in.get_tokenizer = lambda _: lambda texts: torch.tensor([[len(text), 1] for text in texts])
    stand_in.get_model_preprocess_cfg = lambda _: {
        "size": (16, 16),
        "interpolation": "bicubic",
        "resize_mode": "shortest",
    }
    monkeypatch.setitem(sys.modules, "open_clip", stand_in)
    monkeypatch.delitem(sys.modules, ADAPTER, raising=False)
    module = __import__(ADAPTER, fromlist=["load"])
    yield module
    sys.modules.pop(ADAPTER, None)


def test_images_texts_and_tokens_come_from_the_model(adapter: Any) -> None:
    encoder: Any = adapter.load("ViT-B-16", "openai", EncoderOptions())
    assert isinstance(encoder, ClipEncoder)
    weights = encoder.weights  # type: ignore[attr-defined]
    assert adapter.open_clip.asked == [
        ("ViT-B-16", {"pretrained": "openai", "precision": "fp32", "device": "cpu", "require_pretrained": True})
    ]
    assert encoder.dim == 5
    assert encoder.preprocessing.size == (16, 16)
    assert encoder.preprocessing.middle == "round"
    assert encoder.logit_scale == pytest.approx(np.exp(3.0))
    pixels = np.random.default_rng(0).integers(0, 256, (3, 16, 16, 3), np.uint8)
    numbers = torch.from_numpy(encoder.preprocessing.normalise(pixels))
    with torch.inference_mode():
        wanted = weights.visual.conv(numbers)
        feature = torch.nn.functional.normalize(wanted.mean((2, 3)) @ weights.visual.proj, dim=-1)
        cells = torch.nn.functional.normalize(wanted.permute(0, 2, 3, 1) @ weights.visual.proj, dim=-1)
    np.testing.assert_allclose(encoder.encode(pixels), feature, atol=1e-6)
    np.testing.assert_allclose(encoder.tokens(pixels).patches, cells, atol=1e-6)
    assert encoder.encode_texts(["a cat", "a dog or two"]).shape == (2, 5)
    assert encoder.encode_texts([]).shape == (0, 5)


def test_images_alone_ask_for_no_tokenizer(adapter: Any) -> None:
    adapter.open_clip.get_tokenizer = None
    assert not isinstance(adapter.load("RN50", "openai", EncoderOptions(kind="image")), ClipEncoder)


def test_wrong_names_weights_and_settings_are_refused(adapter: Any) -> None:
    with pytest.raises(UnknownNameError, match="unknown open_clip model 'ViT-B16': did you mean 'ViT-B-16'"):
        adapter.load("ViT-B16", "openai", EncoderOptions())
    with pytest.raises(EncoderError, match="the weights are missing: .*open_clip has the tags openai, laion400m_e32"):
        adapter.load("ViT-B-16", None, EncoderOptions())
    with pytest.raises(EncoderError, match="open_clip cannot load it: weights absent"):
        adapter.load("ViT-B-16", "absent", EncoderOptions())
    for settings in ({"resize_mode": "longest"}, {"interpolation": "random"}, {"size": (16, 24)}):
        with pytest.raises(EncoderError, match="its preprocessing is"):
            adapter.translate(settings)
    assert adapter.translate({"size": (16, 24), "resize_mode": "squash"}).resize == (16, 24)


def test_open_clip_itself_gives_the_same_features() -> None:
    try:
        import open_clip
    except (ImportError, RuntimeError) as error:
        pytest.skip(f"open_clip does not load here: {error}")
    adapter = __import__(ADAPTER, fromlist=["OpenClipBody"])
    model = open_clip.create_model("ViT-B-32", pretrained=None).eval()
    numbers = torch.randn(2, 3, 224, 224)
    with torch.inference_mode():
        np.testing.assert_allclose(adapter.OpenClipBody(model)(numbers)[0], model.encode_image(numbers), atol=1e-5)
