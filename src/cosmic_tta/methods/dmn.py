"""DMN (CVPR 2024), its dynamic memory: training-free, zero-shot.

Zhang et al., "Dual Memory Networks: A Versatile Adaptation Approach for Vision-Language Models".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from cosmic_tta.core import Method, Prediction, Sample, State, Task
from cosmic_tta.explanation import Explanation, votes
from cosmic_tta.hyperclass import ClassMemory
from cosmic_tta.ops import Array, affinity, confident_look, softmax, unit
from cosmic_tta.parameters import LARGE, param


@dataclass
class DmnState(State):
    """The dynamic memory: a cache whose class centres attend to the query."""

    memory: ClassMemory


@final
@dataclass(frozen=True)
class Dmn(Method[DmnState]):
    """zero-shot + λ·memory; a class's centre attends to its samples and its text.

    The authors picked λ on test labels; ours is 1 for all data.
    """

    name: ClassVar[str] = "dmn"

    confident: float = param(0.1, "share of the views kept, those of least entropy", range=(0, 1))
    shots: int = param(8, "slots a class in the memory", range=(1, LARGE))
    attention_beta: float = param(5.5, "sharpness of the attention to slots", range=(0, 40))
    weight: float = param(1.0, "of the memory beside zero-shot, the paper's λ", range=(0, LARGE))

    def _init(self, task: Task) -> DmnState:
        return DmnState(task, seen=0, memory=ClassMemory.empty(task.classes, self.shots, task.dim, "attention"))

    def _predict(self, state: DmnState, sample: Sample, *, learn: bool) -> Prediction:
        task, query, cache = state.task, sample.plain, state.memory.cache
        scale = np.float32(task.logit_scale)
        views = softmax(scale * (sample.clip @ task.unit_text.T))  # [V, K]
        if learn:
            look = confident_look(views, self.confident)
            cache.offer(look.label, unit(sample.clip[look.kept].mean(axis=0)), look.entropy, state.seen)
        centres = unit(state.memory.centres_for(query, self.attention_beta, task.unit_text))  # [K, D]
        memory = softmax(scale * (centres @ query))
        mixed = views[0] + np.float32(self.weight) * memory
        scores = mixed / mixed.sum()
        explain = self._explain(state, query, int(scores.argmax()))
        return Prediction(scores, {"zero_shot": views[0], "clip_cache": memory}, explain)

    def _explain(self, state: DmnState, query: Array, answer: int) -> Callable[[], Explanation]:
        cache, name = state.memory.cache, state.task.class_names[answer]
        rows, samples = cache.slots[answer].copy(), cache.sample[answer].copy()  # the cache goes on changing
        return lambda: Explanation(votes={"clip": votes(name, samples, affinity(rows @ query, self.attention_beta))})
