"""DiffTPT (ICCV 2023): TPT with views that a diffusion model drew, those unlike the image left out.

Feng et al., "Diverse Data Augmentation with Diffusions for Effective Test-time Prompt Tuning".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from cosmic_tta.core import Method, Prediction, Sample, State, Task
from cosmic_tta.ops import Array, Ints, confident_views, logits_entropy, softmax
from cosmic_tta.parameters import LARGE, param
from cosmic_tta.prompt_learning import first_context, tower_of, tuned


@dataclass
class DiffTptState(State):
    """The context that every image begins with, and its class texts."""

    context: Array  # [M, W]
    texts: Array  # [K, D]


@final
@dataclass(frozen=True)
class DiffTpt(Method[DiffTptState]):
    """TPT on views of a diffusion model: the ones most like the plain image, then the surest of all.

    A pack has such views behind its others: `cosmic extract --views-from FOLDER`.
    """

    name: ClassVar[str] = "difftpt"
    needs: ClassVar[tuple[str, ...]] = ("tower",)

    generated: int = param(0, "how many of the last views were generated; 0: all but the plain one", range=(0, LARGE))
    alike: float = param(0.8, "share of the generated views kept, the most similar to the plain one", range=(0, 1))
    confident: float = param(0.3, "share of the views kept then, those of least entropy", range=(0, 1))
    steps_each: int = param(4, "steps of AdamW for each image", range=(1, 1000))
    rate: float = param(5e-3, "learning rate", range=(0, LARGE))
    tokens: int = param(4, "context vectors; the last four begin as 'a photo of a'", range=(1, 64))

    def _init(self, task: Task) -> DiffTptState:
        tower = tower_of(task, self.name)
        context = first_context(tower, self.tokens, seed=0)
        return DiffTptState(task, seen=0, context=context, texts=tower.texts(context))

    def _predict(self, state: DiffTptState, sample: Sample, *, learn: bool) -> Prediction:
        task, scale = state.task, np.float32(state.task.logit_scale)
        views = sample.clip[alike(sample.clip, self.generated or len(sample.clip) - 1, self.alike)]
        kept = confident_views(logits_entropy(scale * (views @ state.texts.T)), self.confident)
        tower = tower_of(task, self.name)
        _, texts = tuned(tower, state.context, views[kept], task.logit_scale, self.rate, self.steps_each)
        logits = scale * (texts @ sample.plain)  # [K]
        zero_shot = softmax(scale * (task.unit_text @ sample.plain))
        return Prediction(softmax(logits), {"zero_shot": zero_shot, "logits": logits})


def alike(views: Array, generated: int, share: float) -> Ints:
    """Return which views stay: all that were cut, and the generated ones nearest to the plain image, in order.

    >>> views = np.array([[1, 0], [0.8, 0.6], [0, 1], [0.6, 0.8]], np.float32)
    >>> alike(views, 2, 0.5).tolist()
    [0, 1, 3]
    """
    generated = min(generated, len(views) - 1)
    first = len(views) - generated
    near = views[first:] @ views[0]
    count = min(generated, max(1, round(share * generated)))
    chosen = first + np.argsort(-near, kind="stable")[:count]
    return np.concatenate([np.arange(first), np.sort(chosen)]).astype(np.int64)
