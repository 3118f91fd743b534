"""`clip-resnet:`: the published CLIPs with a ResNet, from their TorchScript archive, a state dict or safetensors.

The tokenizer is in the folder of the weights. A patch is the projected value of one cell of the attention pool. The
pool would give that feature if it attended to that cell alone.
"""

from __future__ import annotations

import warnings
import zipfile
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor

from cosmic_tta.core.errors import EncoderError
from cosmic_tta.data.images.preprocess import Preprocessing
from cosmic_tta.encoders.base import Encoder, EncoderOptions
from cosmic_tta.encoders.clip_resnet_model import ClipResnet
from cosmic_tta.encoders.prompt_tower import PromptTokens, PromptTransformer, clip_prompt_tokens
from cosmic_tta.encoders.tokenizers.clip import ClipTokenizer
from cosmic_tta.encoders.torch_encoder import EncoderBody, TorchClip, TorchEncoder, choose_device

SUFFIXES = (".safetensors", ".pt", ".pth", ".bin")


def load(path: str, _: str | None, options: EncoderOptions) -> Encoder:
    """Load a model from its file, or from a folder that holds one such file."""
    choose_device(options)
    file = _file(Path(path).expanduser())
    try:
        model = ClipResnet.from_weights(read_weights(file))
    except EncoderError as error:
        raise EncoderError(f"{str(file)!r}: {error}") from error
    sizes = model.sizes
    # The published transform crops as torchvision does, which rounds the offset.
    preprocessing = Preprocessing(size=(sizes.resolution, sizes.resolution), resize=sizes.resolution, middle="round")
    body = ResnetBody(model)
    if options.kind == "image":
        return TorchEncoder(model, body, sizes.dim, preprocessing, options)
    return TorchClip(
        model,
        body,
        sizes.dim,
        preprocessing,
        options,
        text=model,
        tokenizer=_tokenizer(file.parent, sizes.context, sizes.vocabulary),
        logit_scale=float(model.logit_scale.detach().exp()),
    )


class ResnetPrompts(PromptTransformer):
    """The text tower, from token embeddings to features."""

    def __init__(self, model: ClipResnet) -> None:
        super().__init__()
        self.transformer, self.ln_final = model.transformer, model.ln_final
        self.token_embedding, self.positional_embedding = model.token_embedding, model.positional_embedding
        self.text_projection = model.text_projection
        sizes = model.sizes
        self.width, self.context, self.dim = sizes.text_width, sizes.context, sizes.dim

    def embed(self, ids: Tensor) -> Tensor:
        """Return the embeddings of the tokens."""
        return self.token_embedding(ids)

    def forward(self, embedded: Tensor, last: Tensor) -> Tensor:
        """Return the projected end tokens [T, dim]."""
        x = self.transformer(embedded + self.positional_embedding[: embedded.shape[1]])
        return self.ln_final(x)[torch.arange(len(x), device=x.device), last] @ self.text_projection


def load_prompts(path: str, _: str | None) -> tuple[PromptTransformer, PromptTokens]:
    """Load the text tower, to learn context vectors through it."""
    file = _file(Path(path).expanduser())
    try:
        model = ClipResnet.from_weights(read_weights(file))
    except EncoderError as error:
        raise EncoderError(f"{str(file)!r}: {error}") from error
    tokenizer = _tokenizer(file.parent, model.sizes.context, model.sizes.vocabulary)
    return ResnetPrompts(model), clip_prompt_tokens(tokenizer)


class ResnetBody(EncoderBody):
    """The image tower."""

    def __init__(self, model: ClipResnet) -> None:
        super().__init__()
        self.visual = model.visual

    def forward(self, numbers: Tensor) -> tuple[Tensor, Tensor]:
        """Return features [B, dim] and the values of the attention pool."""
        output: tuple[Tensor, Tensor] = self.visual(numbers)
        return output

    def patches(self, hidden: Tensor) -> Tensor:
        """Return the value of each cell in the space of the texts."""
        return self.visual.attnpool.c_proj(hidden)


def _file(path: Path) -> Path:
    if path.is_file():
        return path
    if not path.is_dir():
        raise EncoderError(f"there is no file or folder {str(path)!r}: expected a published file such as RN50.pt.")
    found = sorted(file for file in path.iterdir() if file.suffix in SUFFIXES)
    if len(found) != 1:
        names = ", ".join(file.name for file in found) or "none"
        raise EncoderError(f"{str(path)!r} must hold one file of weights ({', '.join(SUFFIXES)}); found {names}.")
    return found[0]


def read_weights(file: Path) -> Mapping[str, Tensor]:
    """Read tensors by name from safetensors, a TorchScript archive or a plain state dict; no pickled code is run."""
    try:
        if file.suffix == ".safetensors":
            return load_file(file)
        if _is_script(file):
            with warnings.catch_warnings():
                # TorchScript is deprecated, but the published weights are stored in it.
                warnings.simplefilter("ignore", DeprecationWarning)
                script: Mapping[str, Tensor] = torch.jit.load(file, map_location="cpu").state_dict()
                return script
        loaded = torch.load(file, map_location="cpu", weights_only=True)
    except Exception as error:  # damaged files raise many kinds of errors
        raise EncoderError(f"is damaged or holds no weights: {error!s:.200}") from error
    if isinstance(loaded, Mapping) and isinstance(loaded.get("state_dict"), Mapping):
        loaded = loaded["state_dict"]
    if not isinstance(loaded, Mapping) or not all(isinstance(value, Tensor) for value in loaded.values()):
        raise EncoderError("holds no state dict: expected tensors by name.")
    return loaded


def _is_script(file: Path) -> bool:
    if not zipfile.is_zipfile(file):
        return False
    with zipfile.ZipFile(file) as archive:
        return any(name.endswith("/constants.pkl") for name in archive.namelist())


def _tokenizer(folder: Path, context: int, vocabulary: int) -> ClipTokenizer:
    if not any((folder / name).is_file() for name in ("vocab.json", "tokenizer.json")):
        raise EncoderError(
            f"there is no tokenizer in {str(folder)!r} (vocab.json and merges.txt, or tokenizer.json); fetch it: "
            f"hf download openai/clip-vit-base-patch16 vocab.json merges.txt --local-dir {folder}."
        )
    tokenizer = ClipTokenizer.read(folder, context)
    if tokenizer.end != vocabulary - 1:
        raise EncoderError(
            f"the tokenizer in {str(folder)!r} ends sentences with the number {tokenizer.end}, these weights with "
            f"{vocabulary - 1}; take the tokenizer of these weights."
        )
    return tokenizer
