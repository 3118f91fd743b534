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
from cosmic_tta.hyperclass import Centring, ClassMemory
from cosmic_tta.ops import Array, Ints, class_probabilities, confident_look, dots
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
        return DmnState(task, seen=0, memory=ClassMemory.empty(task.classes, self.shots, task.dim, self._rule(task)))

    def _carry(self, state: DmnState, task: Task, places: Ints) -> DmnState:
        memory = state.memory.carried(self._rule(task), self._rule(state.task), places)
        return DmnState(task, seen=state.seen, memory=memory)

    def _rule(self, task: Task) -> Centring:
        return Centring("attention", sharpness=self.attention_beta, text=task.unit_text)

    def _predict(self, state: DmnState, sample: Sample, *, learn: bool) -> Prediction:
        task, memory = state.task, state.memory
        rule = self._rule(task)
        text_dots = dots(task.unit_text, sample.clip)  # [V, K]
        look = confident_look(text_dots, task.logit_scale, self.confident, sample.clip)
        zero_shot = look.probabilities[0]
        if learn:
            memory.learn(rule, look.label, look.feature, look.entropy, state.seen)
        attention = memory.attend(rule, memory.slot_dots(sample.clip[:1])[0], text_dots[0])
        recalled = class_probabilities(attention.cosine, task.logit_scale)
        mixed = zero_shot + np.float32(self.weight) * recalled
        scores = mixed / mixed.sum()
        explain = self._explain(state, attention.weights, int(scores.argmax()))
        return Prediction(scores, {"zero_shot": zero_shot, "clip_cache": recalled}, explain)

    def _explain(self, state: DmnState, weights: Array, answer: int) -> Callable[[], Explanation]:
        cache, name = state.memory.cache, state.task.class_names[answer]
        samples, near = cache.sample[answer].copy(), weights[answer, : cache.shots]  # the cache goes on changing
        return lambda: Explanation(votes={"clip": votes(name, samples, near)})
