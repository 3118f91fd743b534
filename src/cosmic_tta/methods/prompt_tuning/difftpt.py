"""DiffTPT (ICCV 2023): TPT with views that a diffusion model generated, those unlike the image left out.

Feng et al., "Diverse Data Augmentation with Diffusions for Effective Test-time Prompt Tuning".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from cosmic_tta.core.arrays import Array, Ints, logits_entropy, softmax
from cosmic_tta.core.method import Method
from cosmic_tta.core.parameters import LARGE, param
from cosmic_tta.core.types import Prediction, Sample, State, Task
from cosmic_tta.methods.components.view_selection import confident_views
from cosmic_tta.methods.prompt_tuning.context import init_context, require_tower, tune_context
from cosmic_tta.methods.registry import register_method


@dataclass
class DiffTptState(State):
    """The context that every image starts from, and its class texts."""

    context: Array  # [M, W]
    texts: Array  # [K, D]


@register_method
@final
@dataclass(frozen=True)
class DiffTpt(Method[DiffTptState]):
    """TPT on views of a diffusion model: those most similar to the plain image, then those of lowest entropy.

    A pack has such views after its others: `cosmic extract --views-from FOLDER`. It needs a text tower (torch).

    Examples:
        >>> DiffTpt().needs
        ('tower',)
    """

    name: ClassVar[str] = "difftpt"
    year: ClassVar[int | None] = 2023
    needs: ClassVar[tuple[str, ...]] = ("tower",)

    generated: int = param(0, "how many of the last views were generated; 0: all but the plain one", range=(0, LARGE))
    alike: float = param(0.8, "share of the generated views kept, the most similar to the plain one", range=(0, 1))
    confident: float = param(0.3, "share of the views kept then, those of lowest entropy", range=(0, 1))
    steps_each: int = param(4, "steps of AdamW per image", range=(1, 1000))
    rate: float = param(5e-3, "learning rate", range=(0, LARGE))
    tokens: int = param(4, "context vectors; the last four begin as 'a photo of a'", range=(1, 64))

    def _init(self, task: Task) -> DiffTptState:
        tower = require_tower(task, self.name)
        context = init_context(tower, self.tokens, seed=0)
        return DiffTptState(task, seen=0, context=context, texts=tower.texts(context))

    def _predict(self, state: DiffTptState, sample: Sample, *, learn: bool) -> Prediction:
        task, scale = state.task, np.float32(state.task.logit_scale)
        views = sample.clip[similar_views(sample.clip, self.generated or len(sample.clip) - 1, self.alike)]
        kept = confident_views(logits_entropy(scale * (views @ state.texts.T)), self.confident)
        tower = require_tower(task, self.name)
        _, texts = tune_context(tower, state.context, views[kept], task.logit_scale, self.rate, self.steps_each)
        logits = scale * (texts @ sample.plain)  # [K]
        zero_shot = softmax(scale * (task.unit_text @ sample.plain))
        return Prediction(softmax(logits), {"zero_shot": zero_shot, "logits": logits})


def similar_views(views: Array, generated: int, share: float) -> Ints:
    """Return the views that are kept: all crops, and the generated views most similar to the plain image, in order.

    Args:
        views: Features of the views, [V, D]. The generated ones come last.
        generated: Number of generated views.
        share: Share of them that is kept, at least one.

    Examples:
        >>> views = np.array([[1, 0], [0.8, 0.6], [0, 1], [0.6, 0.8]], np.float32)
        >>> similar_views(views, 2, 0.5).tolist()
        [0, 1, 3]
    """
    generated = min(generated, len(views) - 1)
    first = len(views) - generated
    similarity = views[first:] @ views[0]
    count = min(generated, max(1, round(share * generated)))
    chosen = first + np.argsort(-similarity, kind="stable")[:count]
    return np.concatenate([np.arange(first), np.sort(chosen)]).astype(np.int64)
