"""Zero-shot CLIP: the texts alone answer. The measure of every other method."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from cosmic_tta.core import Method, Prediction, Sample, State, Task
from cosmic_tta.ops import softmax


@final
@dataclass(frozen=True)
class ZeroShot(Method[State]):
    """Softmax over the similarities of the plain view and the class texts. It learns nothing."""

    name: ClassVar[str] = "zero_shot"

    def _init(self, task: Task) -> State:
        return State(task, seen=0)

    def _predict(self, state: State, sample: Sample, *, learn: bool) -> Prediction:
        task = state.task
        scores = softmax(np.float32(task.logit_scale) * (task.unit_text @ sample.plain))  # [K]
        return Prediction(scores, {"zero_shot": scores})
