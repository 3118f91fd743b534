"""`open_clip:`: models that the package open_clip loads, for example `open_clip:ViT-B-16,openai`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import open_clip
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from cosmic_tta.core.errors import EncoderError, unknown_name
from cosmic_tta.data.images.preprocess import CLIP_MEAN, CLIP_STD, FILTERS, Preprocessing
from cosmic_tta.encoders.base import Encoder, EncoderOptions
from cosmic_tta.encoders.prompt_tower import PromptTokens, PromptTransformer
from cosmic_tta.encoders.torch_encoder import EncoderBody, TorchClip, TorchEncoder, choose_device

SCHEMES = ("hf-hub:", "local-dir:")  # names of models outside open_clip's list


def load(model: str, weights: str | None, options: EncoderOptions) -> Encoder:
    """Load a model by its open_clip name and the tag or file of its weights."""
    choose_device(options)
    known = open_clip.list_models()
    if not model.startswith(SCHEMES):
        if model not in known:
            raise unknown_name("open_clip model", model, known)
        if weights is None:
            tags = ", ".join(open_clip.list_pretrained_tags_by_model(model)) or "none"
            raise EncoderError(f"the weights are missing: give open_clip:{model},TAG; open_clip has the tags {tags}.")
    try:
        made = open_clip.create_model(
            model, pretrained=weights, precision="fp32", device="cpu", require_pretrained=True
        )
        tokenizer = None if options.kind == "image" else open_clip.get_tokenizer(model)
    except Exception as error:  # missing files, an unreachable hub and damaged files raise many kinds of errors
        raise EncoderError(f"open_clip cannot load it: {error}") from error
    preprocessing = translate(open_clip.get_model_preprocess_cfg(made))
    body = OpenClipBody(made)
    dim = _dim(body, preprocessing)
    if tokenizer is None:
        return TorchEncoder(made, body, dim, preprocessing, options)
    return TorchClip(
        made,
        body,
        dim,
        preprocessing,
        options,
        text=OpenClipText(made),
        tokenizer=_as_numpy(tokenizer),
        logit_scale=float(made.logit_scale.detach().exp()),
    )


class OpenClipBody(EncoderBody):
    """The image tower. Patches pass the last norm, and the projection if it is a single matrix."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.visual = model.visual

    def forward(self, numbers: Tensor) -> tuple[Tensor, Tensor]:
        """Return features [B, dim] and the grid of the last layer [B, width, rows, columns]."""
        output = self.visual.forward_intermediates(numbers, indices=1, normalize_intermediates=True, output_fmt="NCHW")
        return output["image_features"], output["image_intermediates"][-1]

    def patches(self, hidden: Tensor) -> Tensor:
        """Return the tokens of the patches."""
        grid = hidden.permute(0, 2, 3, 1)
        projection = getattr(self.visual, "proj", None)
        if isinstance(projection, Tensor) and projection.shape[0] == grid.shape[-1]:
            return grid @ projection
        return grid


class OpenClipText(nn.Module):
    """The text tower."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: Tensor) -> Tensor:
        """Return [T, dim]."""
        features: Tensor = self.model.encode_text(ids)
        return features


class OpenClipPrompts(PromptTransformer):
    """A causal text tower of open_clip, from token embeddings to features."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        text = getattr(model, "text", model)  # a module of its own, or parts of the model
        required = ("token_embedding", "positional_embedding", "transformer", "ln_final", "attn_mask")
        if not all(getattr(text, name, None) is not None for name in required):
            raise EncoderError("prompts are learned through a causal CLIP text tower; this model has none.")
        self.token_embedding, self.transformer, self.ln_final = text.token_embedding, text.transformer, text.ln_final
        self.positional_embedding, self.projection = text.positional_embedding, text.text_projection
        self.mask: Tensor
        self.register_buffer("mask", text.attn_mask.detach().clone(), persistent=False)
        self.context, self.width = map(int, text.positional_embedding.shape)
        linear = isinstance(self.projection, nn.Linear)
        self.dim = int(self.projection.weight.shape[0] if linear else self.projection.shape[1])

    def embed(self, ids: Tensor) -> Tensor:
        """Return the embeddings of the tokens."""
        return self.token_embedding(ids)

    def forward(self, embedded: Tensor, last: Tensor) -> Tensor:
        """Return the projected end tokens [T, dim]."""
        length = embedded.shape[1]
        x, mask = embedded + self.positional_embedding[:length], self.mask[:length, :length]
        if hasattr(self.transformer, "batch_first"):
            x = self.transformer(x, attn_mask=mask)
        else:  # older versions take the tokens first
            x = self.transformer(x.transpose(0, 1), attn_mask=mask).transpose(0, 1)
        ends = self.ln_final(x)[torch.arange(len(x), device=x.device), last]
        return self.projection(ends) if isinstance(self.projection, nn.Linear) else ends @ self.projection


def load_prompts(model: str, weights: str | None) -> tuple[PromptTransformer, PromptTokens]:
    """Load the text tower, to learn context vectors through it."""
    clip: Any = load(model, weights, EncoderOptions("cpu", "float32", "clip"))
    row = clip.tokenizer([""])[0]  # start, end, padding
    start, end = int(row[0]), int(row[1])

    def numbers(text: str) -> list[int]:
        tokens = [int(number) for number in clip.tokenizer([text])[0]]
        return tokens[1 : tokens.index(end)]

    return OpenClipPrompts(clip.weights), PromptTokens(numbers, (start,), (end,))


def translate(settings: Mapping[str, Any]) -> Preprocessing:
    """Translate open_clip's preprocessing; it rounds the offset of the crop, as torchvision does."""
    size = settings.get("size", 224)
    height, width = (size, size) if isinstance(size, int) else size
    mode, resample = settings.get("resize_mode", "shortest"), settings.get("interpolation", "bicubic")
    if mode not in ("shortest", "squash") or resample not in FILTERS or (mode == "shortest" and height != width):
        raise EncoderError(
            f"its preprocessing is resize_mode {mode!r}, interpolation {resample!r} at {height} x {width}; "
            f"supported are 'squash', 'shortest' for squares, and {', '.join(FILTERS)}."
        )
    return Preprocessing(
        size=(height, width),
        resize=height if mode == "shortest" else (height, width),
        mean=tuple(settings.get("mean", CLIP_MEAN)),
        std=tuple(settings.get("std", CLIP_STD)),
        resample=resample,
        middle="round",
    )


def _dim(body: OpenClipBody, preprocessing: Preprocessing) -> int:
    height, width = preprocessing.size
    with torch.inference_mode():
        return int(body.eval()(torch.zeros(1, 3, height, width))[0].shape[-1])


def _as_numpy(tokenizer: Callable[[list[str]], Tensor]) -> Callable[[Sequence[str]], NDArray[np.int64]]:
    def numbers(texts: Sequence[str]) -> NDArray[np.int64]:
        if not texts:
            return np.empty((0, 1), np.int64)
        ids: NDArray[np.int64] = tokenizer(list(texts)).to(torch.int64).numpy()
        return ids

    return numbers
