"""The embedded text tower once more, as a torch module: the same weights, read from its graph.

`tools/mini/networks.py` has the network as it was trained; this one begins at the words' embeddings.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from onnx import numpy_helper
from torch import Tensor, nn

from cosmic_tta.encoders.prompt_tower import PromptBody, Wording
from cosmic_tta.encoders.word_tokenizer import WordTokenizer
from cosmic_tta.errors import EncoderError

LONGEST = 1000  # words that are read of a name; how many fit, the tower says
ABSENT = 1e4  # taken from the score of a place without a word
MAPS = ("queries", "keys", "values", "widen", "narrow")  # in the order in which the graph multiplies by them


class MiniText(PromptBody):
    """One layer of attention over all words, and their mean: it looks ahead too, and knows neither start nor end."""

    def __init__(self, weights: dict[str, Tensor]) -> None:
        super().__init__()
        for name, value in weights.items():
            self.register_buffer(name, value)
        self.context, self.width = weights["places"].shape
        self.dim = len(weights["project"])

    def embed(self, ids: Tensor) -> Tensor:
        """Return the words' embeddings."""
        return self._weight("words")[ids]

    def forward(self, embedded: Tensor, last: Tensor) -> Tensor:
        """Return features [T, dim]."""
        length = embedded.shape[1]
        there = (torch.arange(length, device=last.device) <= last[:, None]).to(embedded.dtype)  # [T, length]
        x = embedded + self._weight("places")[:length]
        scores = (x @ self._weight("queries")) @ (x @ self._weight("keys")).transpose(1, 2) / self.width**0.5
        scores = scores - ABSENT * (1 - there[:, None])
        x = x + scores.softmax(-1) @ (x @ self._weight("values"))
        x = nn.functional.layer_norm(x, (self.width,), self._weight("norm_weight"), self._weight("norm_bias"))
        wide = (x @ self._weight("widen") + self._weight("widen_bias")).relu()
        x = x + wide @ self._weight("narrow") + self._weight("narrow_bias")
        mean = (x * there[..., None]).sum(1) / there.sum(1, keepdim=True)
        return mean @ self._weight("project").T

    def _weight(self, name: str) -> Tensor:
        return self.get_buffer(name)


def read(folder: Path) -> tuple[MiniText, Wording]:
    """Read the graph's weights and the words."""
    tokenizer = WordTokenizer(folder, LONGEST)

    def numbers(text: str) -> list[int]:
        row = tokenizer([text])[0]
        return [int(number) for number in row[row > 0]]

    try:
        return MiniText(weights_of(onnx.load(folder / "text.onnx").graph)), Wording(numbers, (), ())
    except (KeyError, ValueError, IndexError) as error:
        raise EncoderError(
            f"{str(folder / 'text.onnx')!r} is not the graph that tools/mini/export.py writes: {error}"
        ) from error


def weights_of(graph: Any) -> dict[str, Tensor]:
    """Find the weights by what the graph does with them; the names of some are the exporter's own."""
    stored = {one.name.removesuffix(".half"): numpy_helper.to_array(one) for one in graph.initializer}
    arrays = {name: torch.from_numpy(value.astype(np.float32)) for name, value in stored.items()}
    maps = [node.input[1] for node in graph.node if node.op_type == "MatMul" and node.input[1] in arrays]
    weights = {name: arrays[found] for name, found in zip(MAPS, maps, strict=True)}
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
