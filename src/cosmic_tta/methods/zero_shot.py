"""Zero-shot CLIP (ICML 2021): the class texts alone classify. Every other method is compared with it.

Radford et al., "Learning Transferable Visual Models From Natural Language Supervision".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from cosmic_tta.core.arrays import softmax
from cosmic_tta.core.method import Method
from cosmic_tta.core.types import Prediction, Sample, State, Task
from cosmic_tta.methods.registry import register_method


@register_method
@final
@dataclass(frozen=True)
class ZeroShot(Method[State]):
    """Softmax over the similarities of the plain view and the class texts. It learns nothing.

    Examples:
        >>> from cosmic_tta import Sample, Task
        >>> method = ZeroShot()
        >>> state = method.init(Task(("cat", "dog"), np.eye(2)))
        >>> method.step(state, Sample(np.eye(1, 2))).label
        0
    """

    name: ClassVar[str] = "zero_shot"
    year: ClassVar[int | None] = 2021

    def _init(self, task: Task) -> State:
        return State(task, seen=0)

    def _predict(self, state: State, sample: Sample, *, learn: bool) -> Prediction:
        task = state.task
        scores = softmax(np.float32(task.logit_scale) * (task.unit_text @ sample.plain))  # [K]
        return Prediction(scores, {"zero_shot": scores})
