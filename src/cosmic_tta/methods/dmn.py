"""DMN (CVPR 2024): the dynamic memory of Dual Memory Networks, without training and labels.

Zhang et al., "Dual Memory Networks: A Versatile Adaptation Approach for Vision-Language Models".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, final

import numpy as np

from cosmic_tta.core.arrays import Array, Ints, class_probabilities, dots
from cosmic_tta.core.explanation import Explanation, explain_votes
from cosmic_tta.core.memory import FeatureMemory
from cosmic_tta.core.method import Method
from cosmic_tta.core.parameters import LARGE, param
from cosmic_tta.core.types import Prediction, Sample, State, Task
from cosmic_tta.methods.components.prototypes import PrototypeConfig, PrototypeMemory
from cosmic_tta.methods.components.view_selection import select_confident_views
from cosmic_tta.methods.registry import register_method


@dataclass
class DmnState(State):
    """The dynamic memory: a cache whose class prototypes attend to the query."""

    memory: PrototypeMemory


@register_method
@final
@dataclass(frozen=True)
class Dmn(Method[DmnState]):
    """Adds λ times the dynamic memory to the zero-shot probabilities.

    A class prototype is a mean of the class's samples and its text, weighted by their affinity to the query.
    The authors chose λ on test labels. Here it is 1 for all data.

    Examples:
        >>> from cosmic_tta import Sample, Task
        >>> method = Dmn(shots=2)
        >>> state = method.init(Task(("cat", "dog"), np.eye(2)))
        >>> method.step(state, Sample(np.eye(1, 2))).label
        0
    """

    name: ClassVar[str] = "dmn"
    year: ClassVar[int | None] = 2024

    confident: float = param(0.1, "share of the views kept, those of lowest entropy", range=(0, 1))
    shots: int = param(8, "slots per class in the memory", range=(1, LARGE), sizes_state=True)
    attention_beta: float = param(5.5, "sharpness of the attention to slots", range=(0, 40))
    weight: float = param(1.0, "weight of the memory relative to zero-shot, the paper's λ", range=(0, LARGE))

    def _init(self, task: Task) -> DmnState:
        memory = PrototypeMemory.empty(task.classes, self.shots, task.dim, self._prototypes(task))
        return DmnState(task, seen=0, memory=memory)

    def _remap_classes(self, state: DmnState, task: Task, class_map: Ints) -> DmnState:
        memory = state.memory.remapped(self._prototypes(task), self._prototypes(state.task), class_map)
        return DmnState(task, seen=state.seen, memory=memory)

    def _prototypes(self, task: Task) -> PrototypeConfig:
        return PrototypeConfig("attention", sharpness=self.attention_beta, text=task.unit_text)

    def memories(self, state: DmnState) -> tuple[FeatureMemory, ...]:
        """Return the cache behind the prototypes."""
        return (state.memory.cache.as_memory("memory"),)

    def _predict(self, state: DmnState, sample: Sample, *, learn: bool) -> Prediction:
        task, memory = state.task, state.memory
        prototypes = self._prototypes(task)
        text_dots = dots(task.unit_text, sample.clip)  # [V, K]
        selection = select_confident_views(text_dots, task.logit_scale, self.confident, sample.clip)
        zero_shot = selection.probabilities[0]
        if learn:
            memory.learn(prototypes, selection.label, selection.feature, selection.entropy, state.seen)
        attention = memory.attend(prototypes, memory.slot_dots(sample.clip[:1])[0], text_dots[0])
        from_memory = class_probabilities(attention.cosine, task.logit_scale)
        mixed = zero_shot + np.float32(self.weight) * from_memory
        scores = mixed / mixed.sum()
        explain = self._explain(state, attention.weights, int(scores.argmax()))
        return Prediction(scores, {"zero_shot": zero_shot, "clip_cache": from_memory}, explain)

    def _explain(self, state: DmnState, weights: Array, answer: int) -> Callable[[], Explanation]:
        cache, name = state.memory.cache, state.task.class_names[answer]
        samples, own = cache.sample[answer].copy(), weights[answer, : cache.shots]  # later steps change the cache
        return partial(explain_votes, "clip", name, samples, own)
