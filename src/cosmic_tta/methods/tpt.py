"""TPT (NeurIPS 2022): for each image, the prompt's context moves so that confident views agree.

Shu et al., "Test-Time Prompt Tuning for Zero-Shot Generalization in Vision-Language Models".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from cosmic_tta.core import Method, Prediction, Sample, State, Task
from cosmic_tta.ops import Array, confident_views, logits_entropy, softmax
from cosmic_tta.parameters import LARGE, param
from cosmic_tta.prompt_learning import first_context, tower_of, tuned


@dataclass
class TptState(State):
    """The context that the next image begins with, and its class texts."""

    context: Array  # [M, W]
    texts: Array  # [K, D]


@final
@dataclass(frozen=True)
class Tpt(Method[TptState]):
    """One AdamW step on the prompt's context, towards a sure mean prediction of the image's confident views.

    Views are encoded once, before; only the texts are computed anew. Each image begins with the same context.
    """

    name: ClassVar[str] = "tpt"
    needs: ClassVar[tuple[str, ...]] = ("tower",)

    confident: float = param(0.1, "share of the views kept, those of least entropy", range=(0, 1))
    steps_each: int = param(1, "steps of AdamW for each image", range=(1, 1000))
    rate: float = param(5e-3, "learning rate", range=(0, LARGE))
    tokens: int = param(4, "context vectors; the last four begin as 'a photo of a'", range=(1, 64))
    carry_over: bool = param(False, "begin with the context of the image before, instead of the first one")

    def _init(self, task: Task) -> TptState:
        tower = tower_of(task, self.name)
        context = first_context(tower, self.tokens, seed=0)
        return TptState(task, seen=0, context=context, texts=tower.texts(context))

    def _predict(self, state: TptState, sample: Sample, *, learn: bool) -> Prediction:
        task, scale = state.task, np.float32(state.task.logit_scale)
        tower = tower_of(task, self.name)
        kept = confident_views(logits_entropy(scale * (sample.clip @ state.texts.T)), self.confident)
        context, texts = tuned(tower, state.context, sample.clip[kept], task.logit_scale, self.rate, self.steps_each)
        if learn and self.carry_over:
            state.context, state.texts = context, texts
        logits = scale * (texts @ sample.plain)  # [K]
        zero_shot = softmax(scale * (task.unit_text @ sample.plain))
        return Prediction(softmax(logits), {"zero_shot": zero_shot, "logits": logits})
