"""CLIP's modified ResNet against a plain implementation and the text tower of transformers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cosmic_tta.encoders import make_clip

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
tiny = pytest.importorskip("tests.support.tiny_encoders")
pytestmark = pytest.mark.torch


Numbers = NDArray[np.float64]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made: Path = tiny.save_clip_resnet(tmp_path_factory.mktemp("resnet"))
    return made


@pytest.fixture(scope="module")
def weights() -> dict[str, Numbers]:
    return {name: value.double().numpy() for name, value in tiny.clip_resnet_weights().items()}


def convolved(x: Numbers, kernel: Numbers, stride: int = 1) -> Numbers:
    """Convolve [C, H, W] with [O, C, k, k] padded to keep its size, offset by offset."""
    edge = kernel.shape[-1] // 2
    padded = np.pad(x, ((0, 0), (edge, edge), (edge, edge)))
    rows, columns = x.shape[1], x.shape[2]
    out = np.zeros((len(kernel), rows, columns))
    for i in range(kernel.shape[2]):
        for j in range(kernel.shape[3]):
            out += np.einsum("oc,chw->ohw", kernel[:, :, i, j], padded[:, i : i + rows, j : j + columns])
    return out[:, ::stride, ::stride]


def normed(x: Numbers, w: dict[str, Numbers], name: str) -> Numbers:
    mean, variance = w[f"{name}.running_mean"], w[f"{name}.running_var"]
    scale = w[f"{name}.weight"] / np.sqrt(variance + 1e-5)
    made: Numbers = (x - mean[:, None, None]) * scale[:, None, None] + w[f"{name}.bias"][:, None, None]
    return made


def halved(x: Numbers) -> Numbers:
    made: Numbers = (x[:, ::2, ::2] + x[:, 1::2, ::2] + x[:, ::2, 1::2] + x[:, 1::2, 1::2]) / 4
    return made


def naive_resnet(x: Numbers, w: dict[str, Numbers], layers: tuple[int, ...]) -> tuple[Numbers, Numbers]:
    """One image [3, H, W] through the published forward pass; the feature and the cells' values, projected."""
    for place in (1, 2, 3):
        stride = 2 if place == 1 else 1
        x = convolved(x, w[f"visual.conv{place}.weight"], stride)
        x = np.maximum(normed(x, w, f"visual.bn{place}"), 0)
    x = halved(x)
    for stage, blocks in enumerate(layers, start=1):
        for place in range(blocks):
            name = f"visual.layer{stage}.{place}"
            strided = stage > 1 and place == 0
            kept = x
            if f"{name}.downsample.0.weight" in w:
                kept = convolved(halved(x) if strided else x, w[f"{name}.downsample.0.weight"])
                kept = normed(kept, w, f"{name}.downsample.1")
            x = np.maximum(normed(convolved(x, w[f"{name}.conv1.weight"]), w, f"{name}.bn1"), 0)
            x = np.maximum(normed(convolved(x, w[f"{name}.conv2.weight"]), w, f"{name}.bn2"), 0)
            x = halved(x) if strided else x
            x = np.maximum(normed(convolved(x, w[f"{name}.conv3.weight"]), w, f"{name}.bn3") + kept, 0)
    cells = x.reshape(len(x), -1).T
    tokens = np.concatenate([cells.mean(0, keepdims=True), cells]) + w["visual.attnpool.positional_embedding"]

    def linear(rows: Numbers, name: str) -> Numbers:
        made: Numbers = rows @ w[f"visual.attnpool.{name}.weight"].T + w[f"visual.attnpool.{name}.bias"]
        return made

    query, keys, values = linear(tokens[0], "q_proj"), linear(tokens, "k_proj"), linear(tokens, "v_proj")
    mixed = []
    for start in range(0, len(query), 64):
        head = slice(start, start + 64)
        logits = [float(query[head] @ key[head]) / 8 for key in keys]
        shares = np.exp(logits) / np.exp(logits).sum()
        mixed.append(sum(share * value[head] for share, value in zip(shares, values, strict=True)))
    return linear(np.concatenate(mixed), "c_proj"), linear(values[1:], "c_proj")


def unit(rows: Any) -> Any:
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


def test_images_go_through_the_published_forward_pass(folder: Path, weights: dict[str, Numbers]) -> None:
    encoder = make_clip(f"clip-resnet:{folder}")
    pixels = tiny.pixels_for(encoder, 3)
    numbers = encoder.preprocessing.normalise(pixels).astype(np.float64)
    wanted = [naive_resnet(one, weights, tiny.TINY.layers) for one in numbers]
    np.testing.assert_allclose(encoder.encode(pixels), unit(np.stack([one for one, _ in wanted])), atol=2e-5)
    tokens = encoder.tokens(pixels)
    cells = unit(np.stack([cells for _, cells in wanted])).reshape(3, 2, 2, 32)
    np.testing.assert_allclose(tokens.patches, cells, atol=2e-5)
    assert encoder.logit_scale == pytest.approx(np.exp(4.0))
    assert encoder.preprocessing.middle == "round"


def as_transformers(weights: dict[str, Any]) -> dict[str, Any]:
    """Rename the text tower's weights as transformers names them."""
    made = {
        "text_model.embeddings.token_embedding.weight": weights["token_embedding.weight"],
        "text_model.embeddings.position_embedding.weight": weights["positional_embedding"],
        "text_projection.weight": weights["text_projection"].T.contiguous(),
    }
    for name, value in weights.items():
        if name.startswith("ln_final"):
            made[name.replace("ln_final", "text_model.final_layer_norm")] = value
        if not name.startswith("transformer.resblocks."):
            continue
        layer, part = name.removeprefix("transformer.resblocks.").split(".", 1)
        target = f"text_model.encoder.layers.{layer}."
        if part.startswith("attn.in_proj"):
            for one, piece in zip("qkv", value.chunk(3), strict=True):
                made[f"{target}self_attn.{one}_proj.{part.rsplit('_', 1)[1]}"] = piece
            continue
        for ours, theirs in {
            "attn.out_proj": "self_attn.out_proj",
            "ln_1": "layer_norm1",
            "ln_2": "layer_norm2",
            "mlp.c_fc": "mlp.fc1",
            "mlp.c_proj": "mlp.fc2",
        }.items():
            part = part.replace(ours, theirs)
        made[target + part] = value
    return made


def test_texts_go_through_the_same_tower_as_those_of_transformers(folder: Path) -> None:
    config = transformers.CLIPTextConfig(
        vocab_size=526,
        hidden_size=64,
        intermediate_size=256,
        num_hidden_layers=2,
        num_attention_heads=1,
        max_position_embeddings=16,
        projection_dim=32,
        hidden_act="quick_gelu",
        eos_token_id=525,
        bos_token_id=524,
    )
    model = transformers.CLIPTextModelWithProjection(config).eval()
    model.load_state_dict(as_transformers(tiny.clip_resnet_weights()), strict=True)
    encoder = make_clip(f"clip-resnet:{folder}")
    ids = transformers.CLIPTokenizer.from_pretrained(folder)(
        tiny.SAMPLES, padding="max_length", max_length=16, truncation=True, return_tensors="pt"
    )
    with torch.inference_mode():
        wanted = model(**ids).text_embeds.numpy()
    np.testing.assert_allclose(encoder.encode_texts(tiny.SAMPLES), unit(wanted), atol=1e-5)
