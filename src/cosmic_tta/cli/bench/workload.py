"""The workload of `cosmic bench`: an endless stream of features, states with full caches, and the textbook."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import numpy as np

from cosmic_tta.core.arrays import Array, as_float32, logits_entropy, softmax, unit
from cosmic_tta.core.method import Method
from cosmic_tta.core.types import Sample, State, Support, Task
from cosmic_tta.methods import make_method, split_name
from cosmic_tta.methods.components.prototypes import PrototypeConfig, PrototypeMemory
from cosmic_tta.methods.cosmic.method import Cosmic
from cosmic_tta.methods.cosmic.state import CosmicState
from cosmic_tta.methods.dmn import DmnState
from cosmic_tta.methods.tda import Tda, TdaState

NOISE = 6.0  # length of an image's noise around its class centre, in lengths of the centre
NEGATIVE_NOISE = 2 * NOISE  # of the samples in TDA's negative cache
VIEW_NOISE = 0.5  # of a view around its image
KEPT_ONE_IN = 3  # a full cache keeps the lowest third of the entropies, so about a third of new samples enter
TEXTBOOK = Path("benchmarks", "textbook.py")


@dataclass(frozen=True)
class BenchSettings:
    """The settings of one `cosmic bench`."""

    classes: tuple[int, ...]
    methods: tuple[str, ...]
    shots: int
    views: int
    dim: int
    aux_dim: int
    samples: int  # timed calls per figure


class FeatureStream:
    """Generates images around class centres that are independent directions in both feature spaces.

    The class texts are the CLIP centres.
    """

    def __init__(self, classes: int, dim: int, aux_dim: int | None, views: int = 1) -> None:
        self._rng, self._views = np.random.default_rng(classes), views
        self._text = self._directions(classes, dim)
        self._aux = None if aux_dim is None else self._directions(classes, aux_dim)
        self.task = Task(tuple(f"class {k}" for k in range(classes)), self._text, aux_dim=aux_dim)
        zero_shot = self.zero_shot(self.clip(self._rng.integers(classes, size=50 * KEPT_ONE_IN)))
        kept = len(zero_shot) // KEPT_ONE_IN
        self.low = np.sort(logits_entropy(np.log(zero_shot + np.float32(1e-30))))[:kept]  # entropies in a cache
        self.low_joint = np.sort(logits_entropy(2 * zero_shot))[:kept]  # the same for the sum of two predictions

    def _directions(self, count: int, width: int) -> Array:
        return unit(as_float32(self._rng.standard_normal((count, width), np.float32)))

    def _with_noise(self, centres: Array, noise: float) -> Array:
        offsets = self._rng.standard_normal(centres.shape, np.float32)
        return unit(centres + np.float32(noise / np.sqrt(centres.shape[-1])) * offsets)

    def clip(self, labels: Any, noise: float = NOISE) -> Array:
        """Generate CLIP features of the labels, [n, D]."""
        return self._with_noise(self._text[labels], noise)

    def aux(self, labels: Any) -> Array:
        """Generate auxiliary features of the labels, [n, E]."""
        if self._aux is None:
            raise ValueError("this stream has no auxiliary features")
        return self._with_noise(self._aux[labels], NOISE)

    def zero_shot(self, features: Array) -> Array:
        """Return the zero-shot probabilities of features [n, D], [n, K]."""
        return softmax(np.float32(self.task.logit_scale) * (features @ self._text.T))

    def take(self, count: int) -> list[Sample]:
        """Generate the next images, of random classes."""
        labels = self._rng.integers(self.task.classes, size=count)
        plain = self.clip(labels)
        views = self._with_noise(np.repeat(plain[:, None], self._views, axis=1), VIEW_NOISE)
        views[:, 0] = plain
        aux = [None] * count if self._aux is None else list(self.aux(labels))
        return [Sample(clip, feature) for clip, feature in zip(views, aux, strict=True)]

    def entropies(self, count: int, *, joint: bool = False) -> list[float]:
        """Generate entropies of samples in a full cache."""
        chosen: list[float] = self._rng.choice(self.low_joint if joint else self.low, count).tolist()
        return chosen


def supported_method(spec: str, stream: FeatureStream, shots: int) -> Method[Any]:
    """Make a method by name. A few-shot method gets a generated support."""
    if "support" not in split_name(spec)[0].needs:
        return make_method(spec)
    labels = np.repeat(np.arange(stream.task.classes), shots)
    return make_method(spec, support=Support(stream.clip(labels), labels))


def official_cosmic(shots: int, **parameters: Any) -> Cosmic:
    """Make `cosmic@official` with the same number of slots in both feature spaces."""
    method = make_method("cosmic@official", shots=shots, aux_shots=shots, **parameters)
    assert isinstance(method, Cosmic)
    return method


def state_with_graphs(method: Method[Any], stream: FeatureStream) -> Any:
    """Return a state as after a long stream: its caches are full and its graphs are built."""
    state = state_with_full_caches(method, stream)
    method.step(state, stream.take(1)[0])
    return state


def state_with_full_caches(method: Method[Any], stream: FeatureStream) -> Any:
    """Return a state whose caches are full and whose next step builds the graphs.

    The caches are filled directly, class by class. A method without caches steps through a stream instead.
    """
    state: State = method.init(stream.task)
    if isinstance(state, CosmicState) and isinstance(method, Cosmic):
        for space in (state.css, state.afv):
            if space is not None:
                _fill(space.memory, space.config.prototypes, stream, aux=space is state.afv)
                space.drop_nodes()
        most = stream.task.classes * max(method.shots, method.aux_shots)
        state.seen = (most // method.rebuild_every + 1) * method.rebuild_every  # the next step builds the graphs
    elif isinstance(state, DmnState):
        _fill(state.memory, PrototypeConfig("attention", text=stream.task.unit_text), stream)
    elif isinstance(state, TdaState) and isinstance(method, Tda):
        _fill_tda(state, method.negative_mask, stream)
    else:
        method.steps(state, stream.take(2 * stream.task.classes + 200))
    return state


def _fill(memory: PrototypeMemory, rule: PrototypeConfig, stream: FeatureStream, *, aux: bool = False) -> None:
    shots = memory.cache.shots
    for label in range(stream.task.classes):
        features = (stream.aux if aux else stream.clip)(np.full(shots, label))
        for slot, entropy in enumerate(stream.entropies(shots, joint=aux)):
            memory.learn(rule, label, features[slot], entropy, slot * stream.task.classes + label)


def _fill_tda(state: TdaState, mask: tuple[float, float], stream: FeatureStream) -> None:
    classes, (low, high) = stream.task.classes, mask
    for label in range(classes):
        for slot, feature in enumerate(stream.clip(np.full(state.positive.shots, label))):
            state.positive.try_insert(label, feature, stream.entropies(1)[0], slot * classes + label)
        features = stream.clip(np.full(state.negative.shots, label), NEGATIVE_NOISE)
        rows = stream.zero_shot(features)
        state.against[label] = (rows > np.float32(low)) & (rows < np.float32(high))
        for slot, feature in enumerate(features):
            state.negative.try_insert(label, feature, stream.entropies(1)[0], slot * classes + label)
    state.seen = classes * (state.positive.shots + state.negative.shots)


class Textbook:
    """Loads the textbook COSMIC and TDA of the repository's benchmarks. It is false where they are missing."""

    def __init__(self) -> None:
        self.missing_reason = ""  # empty if it was loaded
        candidates = [root / TEXTBOOK for root in (Path(__file__).resolve().parents[4], Path.cwd())]
        file = next((candidate for candidate in candidates if candidate.is_file()), None)
        if file is None:
            self.missing_reason = f"{TEXTBOOK} is not here; run the command in the repository"
            return
        spec = spec_from_file_location("cosmic_tta_textbook", file)
        assert spec is not None
        assert spec.loader is not None
        self._module = module_from_spec(spec)
        try:
            spec.loader.exec_module(self._module)
        except ImportError as error:
            self.missing_reason = f"{TEXTBOOK} needs {error.name}; install the extra `test`"

    def __bool__(self) -> bool:
        return not self.missing_reason

    def cosmic(self, task: Task, shots: int) -> Any:
        """Make a COSMIC for a fresh stream."""
        return self._module.TextbookCosmic(task.text, task.aux_dim, shots=shots, logit_scale=task.logit_scale)

    def tda(self, stream: FeatureStream) -> Any:
        """Make a TDA whose caches are full, with three and two samples per class. Classes are in random order."""
        tda, insert = self._module.TextbookTda(stream.task.text, stream.task.logit_scale), self._module.insert
        for label in np.random.default_rng(0).permutation(stream.task.classes).tolist():
            for feature in stream.clip(np.full(3, label)):
                insert(tda.positive, label, [feature, stream.entropies(1)[0]], 3)
            features = stream.clip(np.full(2, label), NEGATIVE_NOISE)
            for feature, row in zip(features, stream.zero_shot(features), strict=True):
                insert(tda.negative, label, [feature, stream.entropies(1)[0], row], 2)
        return tda
