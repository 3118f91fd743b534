"""A differentiable text tower: class texts as a function of context vectors before the class names.

A prompt is the start token, the context, the class name with a full stop, and the end token. CLIP's attention is
causal, so nothing is computed after the end: prompts are as long as the longest one. The embeddings of start, names
and end are looked up once. The weights are frozen. Inputs and outputs are NumPy arrays.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from cosmic_tta.core.errors import InputError
from cosmic_tta.data.class_names import as_words
from cosmic_tta.encoders.base import EncoderOptions
from cosmic_tta.encoders.fingerprint import fingerprint
from cosmic_tta.encoders.tokenizers.clip import ClipTokenizer
from cosmic_tta.encoders.torch_encoder import choose_device

PROMPT_BATCH = 256  # prompts per pass; with more, activations are recomputed in the backward pass
Array = NDArray[np.float32]
Backward = Callable[[Array], Array]  # gradient of the texts → gradient of the context


class PromptTransformer(nn.Module, ABC):
    """The text tower of a family, from token embeddings to features."""

    width: int  # of a token's embedding
    context: int  # largest number of tokens in a prompt
    dim: int  # of a feature

    @abstractmethod
    def embed(self, ids: Tensor) -> Tensor:
        """Return the embeddings of tokens, without positions: [..., width]."""

    @abstractmethod
    def forward(self, embedded: Tensor, last: Tensor) -> Tensor:
        """Return features [T, dim] of embedded prompts [T, length, width]; `last` [T] are their last positions."""


@dataclass(frozen=True)
class PromptTokens:
    """How a family tokenizes a prompt: the tokens of a text, and those before and after it."""

    numbers: Callable[[str], Sequence[int]]
    start: tuple[int, ...]
    end: tuple[int, ...]


def clip_prompt_tokens(tokenizer: ClipTokenizer) -> PromptTokens:
    """Return the tokens of CLIP's prompts: start, text, end."""
    return PromptTokens(tokenizer.numbers, (tokenizer.start,), (tokenizer.end,))


class TorchPromptTower:
    """A `PromptTower` that torch runs.

    Args:
        body: The text tower of the family.
        prompt_tokens: How the family tokenizes a prompt.
        class_names: The classes, in the order of their labels.
        options: Device and dtype.
        recompute: Recompute activations in the backward pass instead of keeping them.
    """

    def __init__(
        self,
        body: PromptTransformer,
        prompt_tokens: PromptTokens,
        class_names: Sequence[str],
        options: EncoderOptions,
        *,
        recompute: bool = False,
    ) -> None:
        self.class_names, self.width, self.dim = tuple(class_names), body.width, body.dim
        self.device, self._dtype = choose_device(options)
        self._body = body.to(torch.float32).eval().requires_grad_(False).to(self.device)
        self._prompt_tokens, self._options, self._recompute = prompt_tokens, options, recompute
        self._names = [[*prompt_tokens.numbers(f"{as_words(name)}."), *prompt_tokens.end] for name in self.class_names]
        self.require(0)
        longest = max(map(len, self._names))
        fill = self._names[0][-1:]  # after the end, where causal attention ignores it
        rows = torch.tensor([name + fill * (longest - len(name)) for name in self._names])
        with torch.no_grad():
            self._start = self._embedded(prompt_tokens.start)  # [s, width]
            self._after = body.embed(rows.to(self.device)).detach()  # [K, longest, width]
        self._lengths = torch.tensor([len(name) for name in self._names], device=self.device)
        self._last_pass: tuple[bytes, Tensor, Tensor] | None = None  # key, context, features

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the text tower's weights in float32, the same for every device and all classes."""
        weights = self._body.state_dict().items()
        return fingerprint({name: value.detach().cpu().contiguous() for name, value in weights})

    def with_classes(self, class_names: tuple[str, ...]) -> TorchPromptTower:
        """Return the same tower for other classes; the weights are shared."""
        return TorchPromptTower(self._body, self._prompt_tokens, class_names, self._options, recompute=self._recompute)

    def opening(self, words: str) -> Array:
        """Return the token embeddings of some words, [n, width], as an initial context."""
        with torch.no_grad():
            return _array(self._embedded(self._prompt_tokens.numbers(words)))

    def require(self, tokens: int) -> None:
        """Refuse class names that leave no room for this number of context tokens."""
        before, context = len(self._prompt_tokens.start) + tokens, self._body.context
        for name, numbers in zip(self.class_names, self._names, strict=True):
            if before + len(numbers) > context:
                raise InputError(
                    f"the class name {name!r:.80} is too long: {len(numbers)} tokens with its end, and {before} before "
                    f"it; this text tower reads {context}. Shorten the name, or use fewer context tokens."
                )

    def longest(self, tokens: int) -> int:
        """Return the number of tokens of the longest prompt."""
        return len(self._prompt_tokens.start) + tokens + max(map(len, self._names))

    def texts(self, context: Array) -> Array:
        """Return the class texts [K, dim] of a context [M, width], or [B, K, dim] of contexts [B, M, width].

        Contexts [B, K, M, width] are different for each class.
        """
        with torch.no_grad():
            return _array(self._features(self._tensor(context)))

    def differentiate(self, context: Array) -> tuple[Array, Backward]:
        """Return the class texts, and a function from their gradient to the gradient of the context.

        The forward pass of the last context is cached: TPT starts with the same context for every image.
        """
        key = context.tobytes() + str(context.shape).encode()
        last_pass = self._last_pass
        if last_pass is None or last_pass[0] != key:
            self._last_pass = None  # frees its memory before the next one is computed
            leaf = self._tensor(context).requires_grad_()
            with torch.enable_grad():
                last_pass = self._last_pass = key, leaf, self._features(leaf)
        _, leaf, features = last_pass

        def backward(gradient: Array) -> Array:
            # The gradient is scaled so that its largest entry is one: half precision would lose a small one.
            scale = float(np.abs(gradient).max()) or 1.0
            (result,) = torch.autograd.grad(features, leaf, self._tensor(gradient / scale), retain_graph=True)
            return _array(result) * np.float32(scale)

        return _array(features), backward

    def _tensor(self, array: Array) -> Tensor:
        return torch.from_numpy(np.array(array, np.float32)).to(self.device)  # a copy: the array may be read-only

    def _embedded(self, numbers: Sequence[int]) -> Tensor:
        return self._body.embed(torch.tensor(list(numbers), dtype=torch.int64, device=self.device)).detach()

    def _autocast(self) -> AbstractContextManager[object]:
        if self._dtype == torch.float32:
            return nullcontext()
        return torch.autocast(self.device, dtype=self._dtype)

    def _features(self, context: Tensor) -> Tensor:
        """Return unit rows: [K, dim] of one context, [B, K, dim] of several."""
        classes = len(self.class_names)
        per_class = context.ndim == 4
        contexts = context.flatten(0, 1) if per_class else context if context.ndim == 3 else context[None]
        self.require(contexts.shape[1])
        count = len(contexts) // classes if per_class else len(contexts)  # B
        before = torch.cat([self._start.expand(len(contexts), -1, -1), contexts], dim=1)  # [B or B·K, s + M, width]
        last = (before.shape[1] - 1 + self._lengths).repeat(count)  # [B·K]
        prompts = count * classes
        recompute = (self._recompute or prompts > PROMPT_BATCH) and context.requires_grad
        blocks = []
        for block in torch.arange(prompts, device=self.device).split(PROMPT_BATCH):
            own = before[block if per_class else block // classes]  # [T, s + M, width]
            if recompute:
                blocks.append(checkpoint(self._block, own, last[block], block % classes, use_reentrant=False))
            else:
                blocks.append(self._block(own, last[block], block % classes))
        features = torch.cat(blocks).unflatten(0, (count, classes))
        return features[0] if context.ndim == 2 else features

    def _block(self, before: Tensor, last: Tensor, classes: Tensor) -> Tensor:
        embedded = torch.cat([before, self._after[classes]], dim=1)  # [T, length, width]
        with self._autocast():
            features = self._body(embedded, last)
        return nn.functional.normalize(features.to(torch.float32), dim=-1)


def _array(tensor: Tensor) -> Array:
    return tensor.detach().to("cpu", torch.float32).numpy().copy()
