"""A text tower that gradients pass: class texts as a function of context vectors before the class name.

A prompt is start, context, the class name with a full stop, end. What comes after the end is never made: CLIP's tokens
look back only, so prompts are as long as the longest one, not as the model's context. The token embeddings of start,
names and end are looked up once. Weights never learn; arrays go in and come out, torch stays in this room.
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

from cosmic_tta.encoders.base import Options
from cosmic_tta.encoders.clip_tokenizer import ClipTokenizer
from cosmic_tta.encoders.fingerprint import fingerprint
from cosmic_tta.encoders.torch_towers import where
from cosmic_tta.errors import InputError
from cosmic_tta.prompts import spoken

AT_ONCE = 256  # prompts in one pass; of more, activations are computed again on the way back instead of kept
Array = NDArray[np.float32]
Pull = Callable[[Array], Array]


class PromptBody(nn.Module, ABC):
    """What a family adds: the text tower from token embeddings on."""

    width: int  # of a token's embedding
    context: int  # tokens that a prompt may have
    dim: int  # of a feature

    @abstractmethod
    def embed(self, ids: Tensor) -> Tensor:
        """Return the embeddings of tokens, without their places: [..., width]."""

    @abstractmethod
    def forward(self, embedded: Tensor, last: Tensor) -> Tensor:
        """Return features [T, dim] of embedded prompts [T, length, width] whose last tokens stand at `last` [T]."""


@dataclass(frozen=True)
class Wording:
    """How a family writes a prompt: the numbers of a text's tokens, and what stands around them."""

    numbers: Callable[[str], Sequence[int]]
    start: tuple[int, ...]
    end: tuple[int, ...]


def clip_wording(tokenizer: ClipTokenizer) -> Wording:
    """Return CLIP's way: start, text, end."""
    return Wording(tokenizer.numbers, (tokenizer.start,), (tokenizer.end,))


class PromptTower:
    """The class texts of some classes, and the way back to the context that they came from."""

    def __init__(
        self, body: PromptBody, wording: Wording, class_names: Sequence[str], options: Options, *, spare: bool = False
    ) -> None:
        self.class_names, self.width, self.dim = tuple(class_names), body.width, body.dim
        self.device, self._dtype = where(options)
        self._body = body.to(torch.float32).eval().requires_grad_(False).to(self.device)
        self._wording, self._options, self._spare = wording, options, spare
        self._names = [[*wording.numbers(f"{spoken(name)}."), *wording.end] for name in self.class_names]
        self.require(0)
        longest = max(map(len, self._names))
        fill = self._names[0][-1:]  # never looked at: it comes after the end
        rows = torch.tensor([name + fill * (longest - len(name)) for name in self._names])
        with torch.no_grad():
            self._start = self._embedded(wording.start)  # [s, width]
            self._after = body.embed(rows.to(self.device)).detach()  # [K, longest, width]
        self._lengths = torch.tensor([len(name) for name in self._names], device=self.device)
        self._kept: tuple[bytes, Tensor, Tensor] | None = None  # the last context that was differentiated

    @cached_property
    def fingerprint(self) -> str:
        """Of the text tower's weights in float32, wherever it runs and whatever its classes."""
        weights = self._body.state_dict().items()
        return fingerprint({name: value.detach().cpu().contiguous() for name, value in weights})

    def with_classes(self, class_names: tuple[str, ...]) -> PromptTower:
        """Return the same tower for other classes; the weights are shared."""
        return PromptTower(self._body, self._wording, class_names, self._options, spare=self._spare)

    def opening(self, words: str) -> Array:
        """Return the token embeddings of some words, [n, width]: where a context may begin."""
        with torch.no_grad():
            return _array(self._embedded(self._wording.numbers(words)))

    def require(self, tokens: int) -> None:
        """Refuse a class name that leaves no room for so many context tokens."""
        around, context = len(self._wording.start) + tokens, self._body.context
        for name, numbers in zip(self.class_names, self._names, strict=True):
            if around + len(numbers) > context:
                raise InputError(
                    f"the class name {name!r:.80} is too long: {len(numbers)} tokens with its end, and {around} before "
                    f"it, where this text tower reads {context}; shorten the name, or take fewer context tokens."
                )

    def longest(self, tokens: int) -> int:
        """Return how many tokens the longest prompt has."""
        return len(self._wording.start) + tokens + max(map(len, self._names))

    def texts(self, context: Array) -> Array:
        """Return the class texts [K, dim] of a context [M, width], [B, K, dim] of several contexts [B, M, width].

        A context for each class is written [B, K, M, width].
        """
        with torch.no_grad():
            return _array(self._features(self._tensor(context)))

    def differentiate(self, context: Array) -> tuple[Array, Pull]:
        """Return the class texts, and what pulls a gradient of them back to the context.

        The last context's pass is kept: who begins anew with the same one for every image, as TPT does, pays for it
        once.
        """
        key = context.tobytes() + str(context.shape).encode()
        kept = self._kept
        if kept is None or kept[0] != key:
            self._kept = None  # let it go before the next one is made
            leaf = self._tensor(context).requires_grad_()
            with torch.enable_grad():
                kept = self._kept = key, leaf, self._features(leaf)
        _, leaf, features = kept

        def pull(gradient: Array) -> Array:
            # Half precision would lose a small gradient: its largest entry is made one on the way.
            size = float(np.abs(gradient).max()) or 1.0
            (back,) = torch.autograd.grad(features, leaf, self._tensor(gradient / size), retain_graph=True)
            return _array(back) * np.float32(size)

        return _array(features), pull

    def _tensor(self, array: Array) -> Tensor:
        return torch.from_numpy(np.array(array, np.float32)).to(self.device)  # a copy: the caller's may be read-only

    def _embedded(self, numbers: Sequence[int]) -> Tensor:
        return self._body.embed(torch.tensor(list(numbers), dtype=torch.int64, device=self.device)).detach()

    def _half(self) -> AbstractContextManager[object]:
        if self._dtype == torch.float32:
            return nullcontext()
        return torch.autocast(self.device, dtype=self._dtype)

    def _features(self, context: Tensor) -> Tensor:
        """Return unit rows: [K, dim] of one context, [B, K, dim] of several."""
        classes = len(self.class_names)
        every = context.ndim == 4  # a context for each class
        several = context.flatten(0, 1) if every else context if context.ndim == 3 else context[None]
        self.require(several.shape[1])
        count = len(several) // classes if every else len(several)  # B
        before = torch.cat([self._start.expand(len(several), -1, -1), several], dim=1)  # [B or B·K, s + M, width]
        last = (before.shape[1] - 1 + self._lengths).repeat(count)  # [B·K]
        prompts = count * classes
        spare = (self._spare or prompts > AT_ONCE) and context.requires_grad
        blocks = []
        for block in torch.arange(prompts, device=self.device).split(AT_ONCE):
            own = before[block if every else block // classes]  # [T, s + M, width]
            if spare:
                blocks.append(checkpoint(self._block, own, last[block], block % classes, use_reentrant=False))
            else:
                blocks.append(self._block(own, last[block], block % classes))
        features = torch.cat(blocks).unflatten(0, (count, classes))
        return features[0] if context.ndim == 2 else features

    def _block(self, before: Tensor, last: Tensor, classes: Tensor) -> Tensor:
        embedded = torch.cat([before, self._after[classes]], dim=1)  # [T, length, width]
        with self._half():
            features = self._body(embedded, last)
        return nn.functional.normalize(features.to(torch.float32), dim=-1)


def _array(tensor: Tensor) -> Array:
    return tensor.detach().to("cpu", torch.float32).numpy().copy()
