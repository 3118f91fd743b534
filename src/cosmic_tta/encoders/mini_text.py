"""The embedded text tower as a torch module, with the weights of its ONNX graph.

`tools/mini/networks.py` has the network as it was trained; this one begins with the embeddings of the words.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from onnx import numpy_helper
from torch import Tensor, nn

from cosmic_tta.core.errors import EncoderError
from cosmic_tta.encoders.prompt_tower import PromptTokens, PromptTransformer
from cosmic_tta.encoders.tokenizers.words import WordTokenizer

MAX_WORDS = 1000  # read of a class name; the tower checks how many fit
PADDING_PENALTY = 1e4  # subtracted from the attention scores of padding
MATRICES = ("queries", "keys", "values", "widen", "narrow")  # in the order of the graph's matrix products


class MiniText(PromptTransformer):
    """One layer of attention over all words, then their mean. It is not causal and has no start or end token."""

    def __init__(self, weights: dict[str, Tensor]) -> None:
        super().__init__()
        for name, value in weights.items():
            self.register_buffer(name, value)
        self.context, self.width = weights["places"].shape
        self.dim = len(weights["project"])

    def embed(self, ids: Tensor) -> Tensor:
        """Return the embeddings of the words."""
        return self._weight("words")[ids]

    def forward(self, embedded: Tensor, last: Tensor) -> Tensor:
        """Return features [T, dim]."""
        length = embedded.shape[1]
        present = (torch.arange(length, device=last.device) <= last[:, None]).to(embedded.dtype)  # [T, length]
        x = embedded + self._weight("places")[:length]
        scores = (x @ self._weight("queries")) @ (x @ self._weight("keys")).transpose(1, 2) / self.width**0.5
        scores = scores - PADDING_PENALTY * (1 - present[:, None])
        x = x + scores.softmax(-1) @ (x @ self._weight("values"))
        x = nn.functional.layer_norm(x, (self.width,), self._weight("norm_weight"), self._weight("norm_bias"))
        wide = (x @ self._weight("widen") + self._weight("widen_bias")).relu()
        x = x + wide @ self._weight("narrow") + self._weight("narrow_bias")
        mean = (x * present[..., None]).sum(1) / present.sum(1, keepdim=True)
        return mean @ self._weight("project").T

    def _weight(self, name: str) -> Tensor:
        return self.get_buffer(name)


def read(folder: Path) -> tuple[MiniText, PromptTokens]:
    """Read the weights of the graph, and the words."""
    tokenizer = WordTokenizer(folder, MAX_WORDS)

    def numbers(text: str) -> list[int]:
        row = tokenizer([text])[0]
        return [int(number) for number in row[row > 0]]

    try:
        return MiniText(weights_of(onnx.load(folder / "text.onnx").graph)), PromptTokens(numbers, (), ())
    except (KeyError, ValueError, IndexError) as error:
        raise EncoderError(
            f"{str(folder / 'text.onnx')!r} is not the graph of tools/mini/export.py: {error}"
        ) from error


def weights_of(graph: Any) -> dict[str, Tensor]:
    """Find the weights of the graph; matrices are found by their products, since the exporter renames them."""
    stored = {tensor.name.removesuffix(".half"): numpy_helper.to_array(tensor) for tensor in graph.initializer}
    arrays = {name: torch.from_numpy(value.astype(np.float32)) for name, value in stored.items()}
    matrices = [node.input[1] for node in graph.node if node.op_type == "MatMul" and node.input[1] in arrays]
    weights = {name: arrays[found] for name, found in zip(MATRICES, matrices, strict=True)}
    # The names on the left are part of the fingerprint of the tower: checkpoints depend on them.
    named = {
        "words": "tower.words.weight",
        "places": "tower.places",
        "norm_weight": "tower.norm.weight",
        "norm_bias": "tower.norm.bias",
        "widen_bias": "tower.inner.0.bias",
        "narrow_bias": "tower.inner.2.bias",
        "project": "tower.project.weight",
    }
    return weights | {name: arrays[found] for name, found in named.items()}
