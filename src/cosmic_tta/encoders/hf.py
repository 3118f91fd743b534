"""`hf:`: CLIP, SigLIP, DINOv2 and DINOv3 ViTs that transformers loads, from a folder or a hub's cache.

What the features are:

- CLIP: the class token after the last norm, projected into the space of texts.
- SigLIP (1, and 2 at a fixed size): the feature of its attention pooling.
- DINOv2, with or without registers, and DINOv3: the class token after the last norm (`pooler_output`, which is
  `last_hidden_state[:, 0]`). COSMIC's auxiliary features are DINOv2's class tokens, not means of patches.

SigLIP's logit is scale·cosine + bias; the bias is the same for every class, a softmax over classes does not see it,
and it is left out.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AutoConfig, AutoModel
from transformers.masking_utils import create_causal_mask
from transformers.utils import logging as transformers_logging

from cosmic_tta.encoders.base import Encoder, Options
from cosmic_tta.encoders.clip_tokenizer import ClipTokenizer
from cosmic_tta.encoders.file_tokenizer import FileTokenizer
from cosmic_tta.encoders.hub import model_folder
from cosmic_tta.encoders.picture_settings import preprocessing_of
from cosmic_tta.encoders.prompt_tower import PromptBody, Wording, clip_wording
from cosmic_tta.encoders.torch_towers import Body, Tokenizer, TorchClip, TorchEncoder, where
from cosmic_tta.errors import EncoderError, unknown_name

LEGACY_END = 2  # a CLIP configuration that says so means: the largest number of the sentence
MODEL_TYPES = ("clip", "siglip", "dinov2", "dinov2_with_registers", "dinov3_vit")


def load(name: str, revision: str | None, options: Options) -> Encoder:
    """Load a model by its hub name or from a folder."""
    where(options)  # a device that is not there is refused before anything is loaded
    folder = model_folder(name, revision)
    model_type = _model_type(folder)
    model = _model(folder)
    vision = getattr(model.config, "vision_config", model.config)
    patch = int(vision.patch_size)
    preprocessing = preprocessing_of(folder, model_type, int(vision.image_size))
    height, width = preprocessing.size
    fixed = model_type in ("clip", "siglip")
    if (fixed and preprocessing.size != (vision.image_size, vision.image_size)) or height % patch or width % patch:
        takes = f"pictures of {vision.image_size} x {vision.image_size}" if fixed else f"multiples of {patch} pixels"
        raise EncoderError(
            f"{str(folder)!r}: its preprocessing makes {height} x {width} pixels, its model takes {takes}."
        )
    grid = (height // patch, width // patch)
    body: Body
    if model_type == "clip":
        dim, body = int(model.config.projection_dim), ClipBody(model, grid)
    elif model_type == "siglip":
        dim, body = int(vision.hidden_size), SiglipBody(model, grid)
    else:
        return TorchEncoder(model, DinoBody(model, grid), int(model.config.hidden_size), preprocessing, options)
    if options.kind == "image":
        return TorchEncoder(model, body, dim, preprocessing, options)
    return TorchClip(
        model,
        body,
        dim,
        preprocessing,
        options,
        text=TextBody(model),
        tokenizer=_tokenizer(folder, name, model_type, model.config.text_config),
        logit_scale=float(model.logit_scale.detach().exp()),
    )


class ClipBody(Body):
    """CLIP's ViT. Patches go through the last norm and the projection as the class token does.

    The model was trained to project its class token alone; projected patches can be compared with texts, and show
    where a picture resembles one only roughly.
    """

    def __init__(self, model: Any, grid: tuple[int, int]) -> None:
        super().__init__()
        self.vision, self.projection, self.grid = model.vision_model, model.visual_projection, grid

    def forward(self, numbers: Tensor) -> tuple[Tensor, Tensor]:
        """Return projected class tokens [B, dim] and the last layer's tokens."""
        seen = self.vision(pixel_values=numbers)
        return self.projection(seen.pooler_output), seen.last_hidden_state

    def patches(self, hidden: Tensor) -> Tensor:
        """Return the patches' tokens in the space of texts."""
        return self.projection(self.vision.post_layernorm(hidden[:, 1:])).unflatten(1, self.grid)


class SiglipBody(Body):
    """SigLIP's ViT, which has no class token: the feature is pooled. Patches lie before the pooling."""

    def __init__(self, model: Any, grid: tuple[int, int]) -> None:
        super().__init__()
        self.vision, self.grid = model.vision_model, grid

    def forward(self, numbers: Tensor) -> tuple[Tensor, Tensor]:
        """Return pooled features [B, dim] and the last layer's tokens after the norm."""
        seen = self.vision(pixel_values=numbers)
        return seen.pooler_output, seen.last_hidden_state

    def patches(self, hidden: Tensor) -> Tensor:
        """Return the patches' tokens."""
        return hidden.unflatten(1, self.grid)


class DinoBody(Body):
    """A DINO ViT: class token, registers (if any), patches."""

    def __init__(self, model: Any, grid: tuple[int, int]) -> None:
        super().__init__()
        self.model, self.grid = model, grid
        self.first = 1 + int(getattr(model.config, "num_register_tokens", 0) or 0)

    def forward(self, numbers: Tensor) -> tuple[Tensor, Tensor]:
        """Return class tokens [B, dim] and all tokens, after the last norm."""
        hidden = self.model(pixel_values=numbers).last_hidden_state
        return hidden[:, 0], hidden

    def patches(self, hidden: Tensor) -> Tensor:
        """Return the patches' tokens, the registers left out."""
        return hidden[:, self.first :].unflatten(1, self.grid)


class TextBody(nn.Module):
    """The text tower of CLIP or SigLIP, its projection with it.

    No mask of the padding is needed: CLIP's tokens look back only, from an end that comes before it, and SigLIP was
    trained to see it.
    """

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: Tensor) -> Tensor:
        """Return [T, dim] of token numbers [T, context]."""
        features: Tensor = self.model.get_text_features(input_ids=ids).pooler_output
        return features


class ClipPrompts(PromptBody):
    """CLIP's text tower from token embeddings on, layer by layer as transformers runs it."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.text, self.projection = model.text_model, model.text_projection
        settings = self.text.config
        self.width, self.context = int(settings.hidden_size), int(settings.max_position_embeddings)
        self.dim = int(self.projection.weight.shape[0])

    def embed(self, ids: Tensor) -> Tensor:
        """Return the tokens' embeddings."""
        return self.text.embeddings.token_embedding(ids)

    def forward(self, embedded: Tensor, last: Tensor) -> Tensor:
        """Return the projected end tokens [T, dim]."""
        x = self.text.embeddings(inputs_embeds=embedded)
        mask = create_causal_mask(config=self.text.config, inputs_embeds=x, attention_mask=None, past_key_values=None)
        x = self.text.encoder(inputs_embeds=x, attention_mask=mask, is_causal=True).last_hidden_state
        ends = self.text.final_layer_norm(x)[torch.arange(len(x), device=x.device), last]
        return self.projection(ends)


def load_prompts(name: str, revision: str | None) -> tuple[PromptBody, Wording]:
    """Load the text tower of a CLIP, for learnable contexts."""
    folder = model_folder(name, revision)
    model_type = _model_type(folder)
    if model_type != "clip":
        raise EncoderError(f"prompts are learned through CLIP's text tower; {str(folder)!r} is a {model_type}.")
    model = _model(folder)
    tokenizer = _tokenizer(folder, name, model_type, model.config.text_config)
    if not isinstance(tokenizer, ClipTokenizer):  # no CLIP comes with another
        raise EncoderError(f"{str(folder)!r} has no tokenizer of CLIP's kind.")
    return ClipPrompts(model), clip_wording(tokenizer)


def _model_type(folder: Path) -> str:
    file = folder / "config.json"
    try:
        told = json.loads(file.read_text(encoding="utf-8")).get("model_type")
    except (OSError, ValueError, AttributeError) as error:
        raise EncoderError(f"{str(file)!r} cannot be read as JSON: {error}") from error
    if told not in MODEL_TYPES:
        raise EncoderError(f"{str(file)!r}: {unknown_name('model_type', str(told), MODEL_TYPES)}")
    return str(told)


def _model(folder: Path) -> Any:
    """Load a model in float32, quietly; weights that do not fit are refused, none is made up."""
    bar = transformers_logging.is_progress_bar_enabled()
    level = transformers_logging.get_verbosity()
    transformers_logging.disable_progress_bar()
    transformers_logging.set_verbosity_error()
    try:
        configuration = AutoConfig.from_pretrained(folder, local_files_only=True)
        model, told = AutoModel.from_pretrained(
            folder, config=configuration, dtype=torch.float32, local_files_only=True, output_loading_info=True
        )
    except Exception as error:  # a damaged file surfaces as many kinds of error
        raise EncoderError(f"the model in {str(folder)!r} cannot be loaded, its files are damaged: {error}") from error
    finally:
        transformers_logging.set_verbosity(level)
        if bar:
            transformers_logging.enable_progress_bar()
    lacking = sorted(told["missing_keys"]) + sorted(str(key[0]) for key in told["mismatched_keys"])
    if lacking:
        raise EncoderError(
            f"the weights in {str(folder)!r} do not fit its config.json: {len(lacking)} are missing or of another "
            f"shape, the first {lacking[0]!r}."
        )
    loaded: nn.Module = model
    return loaded


def _tokenizer(folder: Path, name: str, model_type: str, settings: Any) -> Tokenizer:
    context = int(settings.max_position_embeddings)
    if model_type == "siglip":
        return FileTokenizer(folder, context)
    if not any((folder / file).is_file() for file in ("vocab.json", "tokenizer.json")):
        fetch = f"hf download openai/clip-vit-base-patch16 vocab.json merges.txt --local-dir {folder}"
        raise EncoderError(
            f"{str(folder)!r} has no tokenizer (vocab.json and merges.txt, or tokenizer.json); fetch it: "
            f"{fetch if Path(name).expanduser().is_dir() else f'hf download {name}'}."
        )
    tokenizer = ClipTokenizer.read(folder, context)
    if settings.eos_token_id not in (LEGACY_END, tokenizer.end):
        raise EncoderError(
            f"{str(folder)!r}: the text tower looks for the end token {settings.eos_token_id}, its tokenizer writes "
            f"{tokenizer.end}; they do not belong together."
        )
    return tokenizer
