"""The text tower that gradients pass: equal to the plain one, right for every length of name, and never changed."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from cosmic_tta.core.errors import EncoderError, InputError
from cosmic_tta.encoders import make_clip, make_tower

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytestmark = pytest.mark.torch

from cosmic_tta.encoders.base import EncoderOptions  # noqa: E402
from cosmic_tta.encoders.prompt_tower import PROMPT_BATCH, TorchPromptTower  # noqa: E402
from cosmic_tta.encoders.random_tower import random_tower  # noqa: E402
from tests.support.tiny_encoders import TINIEST, clip_resnet_weights, save_clip, save_siglip, write_clip_tokenizer  # noqa: E402

NAMES = ("cat", "the dog", "an_otter cat")  # of different lengths


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_clip(tmp_path_factory.mktemp("clip"))


@pytest.fixture(scope="module")
def tower(folder: Path) -> Any:
    return make_tower(f"hf:{folder}", NAMES, device="cpu")


def random(*shape: int) -> Any:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def test_the_context_of_words_gives_the_plain_towers_features(folder: Path, tower: Any) -> None:
    plain = make_clip(f"hf:{folder}", device="cpu").encode_texts(["a cat of cat.", "a cat of the dog.",
                                                                  "a cat of an otter cat."])  # fmt: skip
    np.testing.assert_allclose(tower.texts(tower.opening("a cat of")), plain, atol=1e-6)


def test_a_clip_with_a_resnet_has_a_tower_too(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    save_file(clip_resnet_weights(TINIEST), tmp_path / "RN.safetensors")
    write_clip_tokenizer(tmp_path)
    spec = f"clip-resnet:{tmp_path}"
    made = make_tower(spec, NAMES, device="cpu")
    plain = make_clip(spec, device="cpu").encode_texts(["the cat.", "the the dog.", "the an otter cat."])
    np.testing.assert_allclose(made.texts(made.opening("the")), plain, atol=1e-5)


def test_a_gradient_is_the_slope_of_the_texts(tower: Any) -> None:
    context, weights = tower.opening("a cat of"), random(3, tower.dim)
    texts, pull = tower.differentiate(context)
    gradient = pull(weights)
    np.testing.assert_allclose(texts, tower.texts(context), atol=1e-6)
    step = 1e-2 * random(*context.shape)
    rise = ((tower.texts(context + step) - tower.texts(context - step)) * weights).sum() / 2
    assert rise == pytest.approx(float((gradient * step).sum()), rel=0.05)
    np.testing.assert_array_equal(pull(weights), gradient)  # the pass is kept, and can be gone back twice


def test_nothing_but_the_context_learns(tower: Any) -> None:
    before = {name: value.clone() for name, value in tower._body.state_dict().items()}
    _, pull = tower.differentiate(tower.opening("a cat of"))
    pull(random(3, tower.dim))
    assert all(torch.equal(value, before[name]) for name, value in tower._body.state_dict().items())
    assert all(weight.grad is None and not weight.requires_grad for weight in tower._body.parameters())


def test_several_contexts_and_one_for_each_class(tower: Any) -> None:
    one, other = tower.opening("a cat of"), tower.opening("the dog the")
    both = tower.texts(np.stack([one, other]))
    np.testing.assert_allclose(both, np.stack([tower.texts(one), tower.texts(other)]), atol=1e-6)
    each = tower.texts(np.stack([one, other, one])[None])[0]
    np.testing.assert_allclose(each, [both[0, 0], both[1, 1], both[0, 2]], atol=1e-6)


def test_what_comes_after_the_end_does_not_count(folder: Path, tower: Any) -> None:
    alone = make_tower(f"hf:{folder}", NAMES[:1], device="cpu")
    context = tower.opening("a cat of")
    np.testing.assert_allclose(alone.texts(context)[0], tower.texts(context)[0], atol=1e-6)


def test_activations_computed_again_give_the_same_gradient(folder: Path, tower: Any) -> None:
    recomputing = make_tower(f"hf:{folder}", NAMES, device="cpu", recompute=True)
    context, weights = tower.opening("a cat of"), random(3, tower.dim)
    np.testing.assert_allclose(recomputing.differentiate(context)[1](weights), tower.differentiate(context)[1](weights),
                               atol=1e-6)  # fmt: skip


def test_more_classes_than_one_pass_takes() -> None:
    names = tuple(f"class {k}" for k in range(PROMPT_BATCH + 3))
    many, few = random_tower(names, 8), random_tower(names[-2:], 8)
    context = many.opening("a photo of a")
    texts, pull = many.differentiate(context)
    np.testing.assert_allclose(texts[-2:], few.texts(context), atol=1e-5)
    weights = np.zeros_like(texts)
    weights[-2:] = random(2, 8)
    np.testing.assert_allclose(pull(weights), few.differentiate(context)[1](weights[-2:]), atol=1e-5)


def test_mixed_precision_is_close(folder: Path, tower: Any) -> None:
    half = make_tower(f"hf:{folder}", NAMES, device="cpu", dtype="bfloat16")
    context, weights = tower.opening("a cat of"), 1e-6 * random(3, tower.dim)  # small: it must not be lost
    texts, pull = half.differentiate(context)
    assert texts.dtype == np.float32
    np.testing.assert_allclose(texts, tower.texts(context), atol=0.02)
    exact = tower.differentiate(context)[1](weights)
    assert np.abs(pull(weights) - exact).max() < 0.05 * np.abs(exact).max()


def test_the_fingerprint_is_of_the_weights_alone(folder: Path, tower: Any, tmp_path: Path) -> None:
    assert make_tower(f"hf:{folder}", ("dog",), device="cpu").fingerprint == tower.fingerprint
    assert random_tower(NAMES, 8).fingerprint != tower.fingerprint


def test_a_name_that_leaves_no_room_is_refused(folder: Path) -> None:
    with pytest.raises(InputError, match="'photo photo .* is too long: .* reads 16"):
        make_tower(f"hf:{folder}", ("cat", "photo " * 15), device="cpu")
    snug = make_tower(f"hf:{folder}", ("cat", "photo " * 11 + "photo"), device="cpu")  # with start, stop and end: 15
    snug.require(1)
    with pytest.raises(InputError, match="use fewer context tokens"):
        snug.require(2)


def test_towers_that_gradients_do_not_pass_say_so(tmp_path: Path) -> None:
    with pytest.raises(EncoderError, match="exported graph has no gradients; give the encoder"):
        make_tower("onnx:somewhere", NAMES)
    with pytest.raises(EncoderError, match="no text tower; mini:clip has one"):
        make_tower("mini:dino", NAMES)
    save_siglip(tmp_path / "siglip")
    with pytest.raises(EncoderError, match="is a siglip"):
        make_tower(f"hf:{tmp_path / 'siglip'}", NAMES)


def test_without_torch_the_install_command_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cosmic_tta.encoders.registry.find_spec", lambda name: None if name == "torch" else object())
    with pytest.raises(EncoderError, match=r"needs torch, which is not installed.*: pip install 'cosmic-tta\[torch\]'"):
        make_tower("mini:clip", NAMES)


class Causal(torch.nn.Module):  # type: ignore[misc, name-defined]
    """A layer of open_clip's kind."""

    batch_first = True

    def __init__(self) -> None:
        super().__init__()
        self.attention = torch.nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x: Any, attn_mask: Any) -> Any:
        return x + self.attention(x, x, x, attn_mask=attn_mask, need_weights=False)[0]


def test_an_open_clip_tower_with_a_stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "open_clip", ModuleType("open_clip"))
    monkeypatch.delitem(sys.modules, "cosmic_tta.encoders.open_clip", raising=False)
    from cosmic_tta.encoders.open_clip import OpenClipPrompts
    from cosmic_tta.encoders.prompt_tower import PromptTokens

    torch.manual_seed(0)
    model = torch.nn.Module()
    model.token_embedding, model.transformer = torch.nn.Embedding(300, 8), Causal()
    model.ln_final, model.text_projection = torch.nn.LayerNorm(8), torch.nn.Parameter(torch.randn(8, 5))
    model.positional_embedding = torch.nn.Parameter(torch.randn(12, 8))
    model.attn_mask = torch.full((12, 12), float("-inf")).triu(1)
    wording = PromptTokens(lambda text: [ord(letter) for letter in text], (298,), (299,))
    tower = TorchPromptTower(OpenClipPrompts(model), wording, ("ab", "c"), EncoderOptions("cpu", "float32"))
    ids = torch.tensor([[298, *map(ord, "xyab."), 299], [298, *map(ord, "xyc."), 299, 0]])
    with torch.no_grad():
        x = model.token_embedding(ids) + model.positional_embedding[:7]
        x = model.ln_final(model.transformer(x, model.attn_mask[:7, :7]))[[0, 1], [6, 5]] @ model.text_projection
    np.testing.assert_allclose(
        tower.texts(tower.opening("xy")), torch.nn.functional.normalize(x, dim=-1).numpy(), atol=1e-6
    )
    monkeypatch.delitem(sys.modules, "cosmic_tta.encoders.open_clip")
    with pytest.raises(EncoderError, match="this model has none"):
        OpenClipPrompts(torch.nn.Module())
