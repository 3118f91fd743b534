"""`hf:`: CLIP, SigLIP, DINOv2 and DINOv3 ViTs that transformers loads, from a folder or the hub's cache.

The features are:

- CLIP: the class token after the last norm, projected into the space of the texts.
- SigLIP (1, and 2 at a fixed size): the feature of its attention pooling.
- DINOv2, with or without registers, and DINOv3: the class token after the last norm (`pooler_output`, which is
  `last_hidden_state[:, 0]`). COSMIC's auxiliary features are DINOv2's class tokens, not means of patches.

SigLIP's logit is scale·cosine + bias. The bias is the same for every class and cancels in a softmax, so it is left
out.
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

from cosmic_tta.core.errors import EncoderError, unknown_name
from cosmic_tta.encoders.base import Encoder, EncoderOptions
from cosmic_tta.encoders.hf_files import model_folder
from cosmic_tta.encoders.hf_processor import preprocessing_of
from cosmic_tta.encoders.prompt_tower import PromptTokens, PromptTransformer, clip_prompt_tokens
from cosmic_tta.encoders.tokenizers.clip import ClipTokenizer
from cosmic_tta.encoders.tokenizers.hf_file import FileTokenizer
from cosmic_tta.encoders.torch_encoder import EncoderBody, Tokenizer, TorchClip, TorchEncoder, choose_device

LEGACY_END = 2  # in old CLIP configurations: the end token is the one with the largest number
MODEL_TYPES = ("clip", "siglip", "dinov2", "dinov2_with_registers", "dinov3_vit")


def load(name: str, revision: str | None, options: EncoderOptions) -> Encoder:
    """Load a model by its hub name or from a folder."""
    choose_device(options)  # refuses a missing device before anything is loaded
    folder = model_folder(name, revision)
    model_type = _model_type(folder)
    model = _model(folder)
    vision = getattr(model.config, "vision_config", model.config)
    patch = int(vision.patch_size)
    preprocessing = preprocessing_of(folder, model_type, int(vision.image_size))
    height, width = preprocessing.size
    fixed_size = model_type in ("clip", "siglip")
    if (fixed_size and preprocessing.size != (vision.image_size, vision.image_size)) or height % patch or width % patch:
        takes = f"images of {vision.image_size} x {vision.image_size}" if fixed_size else f"multiples of {patch} pixels"
        raise EncoderError(
            f"{str(folder)!r}: its preprocessing makes {height} x {width} pixels, its model takes {takes}."
        )
    grid = (height // patch, width // patch)
    body: EncoderBody
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


class ClipBody(EncoderBody):
    """CLIP's ViT. Patches pass the last norm and the projection, as the class token does.

    The model was trained to project its class token alone. So the similarity of projected patches to a text shows
    only roughly where an image resembles it.
    """

    def __init__(self, model: Any, grid: tuple[int, int]) -> None:
        super().__init__()
        self.vision, self.projection, self.grid = model.vision_model, model.visual_projection, grid

    def forward(self, numbers: Tensor) -> tuple[Tensor, Tensor]:
        """Return projected class tokens [B, dim] and the tokens of the last layer."""
        output = self.vision(pixel_values=numbers)
        return self.projection(output.pooler_output), output.last_hidden_state

    def patches(self, hidden: Tensor) -> Tensor:
        """Return the tokens of the patches in the space of the texts."""
        return self.projection(self.vision.post_layernorm(hidden[:, 1:])).unflatten(1, self.grid)


class SiglipBody(EncoderBody):
    """SigLIP's ViT, which has no class token: the feature is pooled. Patches are the tokens before the pooling."""

    def __init__(self, model: Any, grid: tuple[int, int]) -> None:
        super().__init__()
        self.vision, self.grid = model.vision_model, grid

    def forward(self, numbers: Tensor) -> tuple[Tensor, Tensor]:
        """Return pooled features [B, dim] and the tokens of the last layer after the norm."""
        output = self.vision(pixel_values=numbers)
        return output.pooler_output, output.last_hidden_state

    def patches(self, hidden: Tensor) -> Tensor:
        """Return the tokens of the patches."""
        return hidden.unflatten(1, self.grid)


class DinoBody(EncoderBody):
    """A DINO ViT: class token, registers (if any), patches."""

    def __init__(self, model: Any, grid: tuple[int, int]) -> None:
        super().__init__()
        self.model, self.grid = model, grid
        self.first_patch = 1 + int(getattr(model.config, "num_register_tokens", 0) or 0)

    def forward(self, numbers: Tensor) -> tuple[Tensor, Tensor]:
        """Return class tokens [B, dim] and all tokens, after the last norm."""
        hidden = self.model(pixel_values=numbers).last_hidden_state
        return hidden[:, 0], hidden

    def patches(self, hidden: Tensor) -> Tensor:
        """Return the tokens of the patches, without the registers."""
        return hidden[:, self.first_patch :].unflatten(1, self.grid)


class TextBody(nn.Module):
    """The text tower of CLIP or SigLIP, with its projection.

    The padding needs no mask. CLIP's attention is causal and its end token comes before the padding; SigLIP was
    trained with the padding.
    """

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: Tensor) -> Tensor:
        """Return [T, dim] of token numbers [T, context]."""
        features: Tensor = self.model.get_text_features(input_ids=ids).pooler_output
        return features


class ClipPrompts(PromptTransformer):
    """CLIP's text tower, from token embeddings to features."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.text, self.projection = model.text_model, model.text_projection
        settings = self.text.config
        self.width, self.context = int(settings.hidden_size), int(settings.max_position_embeddings)
        self.dim = int(self.projection.weight.shape[0])

    def embed(self, ids: Tensor) -> Tensor:
        """Return the embeddings of the tokens."""
        return self.text.embeddings.token_embedding(ids)

    def forward(self, embedded: Tensor, last: Tensor) -> Tensor:
        """Return the projected end tokens [T, dim]."""
        x = self.text.embeddings(inputs_embeds=embedded)
        mask = create_causal_mask(config=self.text.config, inputs_embeds=x, attention_mask=None, past_key_values=None)
        x = self.text.encoder(inputs_embeds=x, attention_mask=mask, is_causal=True).last_hidden_state
        ends = self.text.final_layer_norm(x)[torch.arange(len(x), device=x.device), last]
        return self.projection(ends)


def load_prompts(name: str, revision: str | None) -> tuple[PromptTransformer, PromptTokens]:
    """Load the text tower of a CLIP, to learn context vectors through it."""
    folder = model_folder(name, revision)
    model_type = _model_type(folder)
    if model_type != "clip":
        raise EncoderError(f"prompts are learned through CLIP's text tower; {str(folder)!r} is a {model_type}.")
    model = _model(folder)
    tokenizer = _tokenizer(folder, name, model_type, model.config.text_config)
    if not isinstance(tokenizer, ClipTokenizer):
        raise EncoderError(f"{str(folder)!r} has no tokenizer of CLIP's kind.")
    return ClipPrompts(model), clip_prompt_tokens(tokenizer)


def _model_type(folder: Path) -> str:
    file = folder / "config.json"
    try:
        model_type = json.loads(file.read_text(encoding="utf-8")).get("model_type")
    except (OSError, ValueError, AttributeError) as error:
        raise EncoderError(f"{str(file)!r} cannot be read as JSON: {error}") from error
    if model_type not in MODEL_TYPES:
        raise EncoderError(f"{str(file)!r}: {unknown_name('model_type', str(model_type), MODEL_TYPES)}")
    return str(model_type)


def _model(folder: Path) -> Any:
    """Load a model in float32, without output; missing weights are refused, not initialised at random."""
    progress_bar = transformers_logging.is_progress_bar_enabled()
    level = transformers_logging.get_verbosity()
    transformers_logging.disable_progress_bar()
    transformers_logging.set_verbosity_error()
    try:
        configuration = AutoConfig.from_pretrained(folder, local_files_only=True)
        model, loading = AutoModel.from_pretrained(
            folder, config=configuration, dtype=torch.float32, local_files_only=True, output_loading_info=True
        )
    except Exception as error:  # damaged files raise many kinds of errors
        raise EncoderError(f"the model in {str(folder)!r} cannot be loaded, its files are damaged: {error}") from error
    finally:
        transformers_logging.set_verbosity(level)
        if progress_bar:
            transformers_logging.enable_progress_bar()
    unfit = sorted(loading["missing_keys"]) + sorted(str(key[0]) for key in loading["mismatched_keys"])
    if unfit:
        raise EncoderError(
            f"the weights in {str(folder)!r} do not fit its config.json: {len(unfit)} are missing or of another "
            f"shape, the first {unfit[0]!r}."
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
            f"{tokenizer.end}; take the tokenizer of this model."
        )
    return tokenizer
