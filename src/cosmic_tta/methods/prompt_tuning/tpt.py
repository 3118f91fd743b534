"""TPT (NeurIPS 2022): for each image, the context of the prompt is tuned until confident views agree.

Shu et al., "Test-Time Prompt Tuning for Zero-Shot Generalization in Vision-Language Models". The loss and its gradient
are `mean_entropy` in `components/optim.py`; the steps on the context are `tune_context` in `context.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from cosmic_tta.core.arrays import Array, logits_entropy, softmax
from cosmic_tta.core.method import Method
from cosmic_tta.core.parameters import LARGE, param
from cosmic_tta.core.types import Prediction, Sample, State, Task
from cosmic_tta.methods.components.view_selection import confident_views
from cosmic_tta.methods.prompt_tuning.context import init_context, require_tower, tune_context
from cosmic_tta.methods.registry import register_method


@dataclass
class TptState(State):
    """The context that the next image starts from, and its class texts."""

    context: Array  # [M, W]
    texts: Array  # [K, D]


@register_method
@final
@dataclass(frozen=True)
class Tpt(Method[TptState]):
    """One AdamW step on the context, which lowers the entropy of the mean prediction of the confident views.

    Views are encoded once, before; only the texts are computed again. Each image starts from the same context.
    It needs a text tower (torch).

    Examples:
        >>> Tpt().needs
        ('tower',)
    """

    name: ClassVar[str] = "tpt"
    year: ClassVar[int | None] = 2022
    needs: ClassVar[tuple[str, ...]] = ("tower",)

    confident: float = param(0.1, "share of the views kept, those of lowest entropy", range=(0, 1))
    steps_each: int = param(1, "steps of AdamW per image", range=(1, 1000))
    rate: float = param(5e-3, "learning rate", range=(0, LARGE))
    tokens: int = param(4, "context vectors; the last four begin as 'a photo of a'", range=(1, 64))
    carry_over: bool = param(False, "start from the context of the previous image instead of the first one")

    def _init(self, task: Task) -> TptState:
        tower = require_tower(task, self.name)
        context = init_context(tower, self.tokens, seed=0)
        return TptState(task, seen=0, context=context, texts=tower.texts(context))

    def _predict(self, state: TptState, sample: Sample, *, learn: bool) -> Prediction:
        task, scale = state.task, np.float32(state.task.logit_scale)
        tower = require_tower(task, self.name)
        kept = confident_views(logits_entropy(scale * (sample.clip @ state.texts.T)), self.confident)
        context, texts = tune_context(
            tower, state.context, sample.clip[kept], task.logit_scale, self.rate, self.steps_each
        )
        if learn and self.carry_over:
            state.context, state.texts = context, texts
        logits = scale * (texts @ sample.plain)  # [K]
        zero_shot = softmax(scale * (task.unit_text @ sample.plain))
        return Prediction(softmax(logits), {"zero_shot": zero_shot, "logits": logits})
