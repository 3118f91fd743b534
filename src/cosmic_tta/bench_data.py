"""What `cosmic bench` measures on: a stream without end, states with full caches, and the textbook beside them."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import numpy as np

from cosmic_tta.core import Method, Sample, State, Support, Task
from cosmic_tta.hyperclass import Centring, ClassMemory
from cosmic_tta.methods import make_method, split_name
from cosmic_tta.methods.cosmic import Cosmic, CosmicState
from cosmic_tta.methods.dmn import DmnState
from cosmic_tta.methods.tda import Tda, TdaState
from cosmic_tta.ops import Array, as_float32, logits_entropy, softmax, unit

NOISE = 6.0  # of an image around its class's centre, in lengths of the centre
UNSURE = 2.0  # how many times more noise a sample of TDA's negative cache has
VIEW_NOISE = 0.5  # of a view around the image
SURE = 3  # a full cache keeps one in so many: as often a new sample is sure enough to enter
TEXTBOOK = Path("benchmarks", "textbook.py")


@dataclass(frozen=True)
class Settings:
    """What a run measures; it stands beside the figures."""

    classes: tuple[int, ...]
    methods: tuple[str, ...]
    shots: int
    views: int
    dim: int
    aux_dim: int
    samples: int  # timed calls a figure


class Stream:
    """Images of classes whose centres are independent directions, in both spaces; the texts are the CLIP centres."""

    def __init__(self, classes: int, dim: int, aux_dim: int | None, views: int = 1) -> None:
        self._rng, self._views = np.random.default_rng(classes), views
        self._text = self._directions(classes, dim)
        self._aux = None if aux_dim is None else self._directions(classes, aux_dim)
        self.task = Task(tuple(f"class {k}" for k in range(classes)), self._text, aux_dim=aux_dim)
        zero_shot = self.zero_shot(self.clip(self._rng.integers(classes, size=50 * SURE)))
        few = len(zero_shot) // SURE
        self.low = np.sort(logits_entropy(np.log(zero_shot + np.float32(1e-30))))[:few]  # of what a cache keeps
        self.low_joint = np.sort(logits_entropy(2 * zero_shot))[:few]  # the same where two predictions are summed

    def _directions(self, count: int, width: int) -> Array:
        return unit(as_float32(self._rng.standard_normal((count, width), np.float32)))

    def _looks(self, centres: Array, noise: float) -> Array:
        around = self._rng.standard_normal(centres.shape, np.float32)
        return unit(centres + np.float32(noise / np.sqrt(centres.shape[-1])) * around)

    def clip(self, labels: Any, noise: float = NOISE) -> Array:
        """Draw CLIP features of classes, [n, D]."""
        return self._looks(self._text[labels], noise)

    def aux(self, labels: Any) -> Array:
        """Draw auxiliary features of classes, [n, E]."""
        if self._aux is None:
            raise ValueError("this stream has no auxiliary features")
        return self._looks(self._aux[labels], NOISE)

    def zero_shot(self, features: Array) -> Array:
        """Return the zero-shot probabilities of features [n, D], [n, K]."""
        return softmax(np.float32(self.task.logit_scale) * (features @ self._text.T))

    def take(self, count: int) -> list[Sample]:
        """Draw the next images, of any class."""
        labels = self._rng.integers(self.task.classes, size=count)
        plain = self.clip(labels)
        views = self._looks(np.repeat(plain[:, None], self._views, axis=1), VIEW_NOISE)
        views[:, 0] = plain
        aux = [None] * count if self._aux is None else list(self.aux(labels))
        return [Sample(look, of) for look, of in zip(views, aux, strict=True)]

    def entropies(self, count: int, *, joint: bool = False) -> list[float]:
        """Draw entropies as a cache keeps them."""
        drawn: list[float] = self._rng.choice(self.low_joint if joint else self.low, count).tolist()
        return drawn


def method_for(spec: str, stream: Stream, shots: int) -> Method[Any]:
    """Make a method by name, with a generated support if it needs one."""
    if "support" not in split_name(spec)[0].needs:
        return make_method(spec)
    labels = np.repeat(np.arange(stream.task.classes), shots)
    return make_method(spec, support=Support(stream.clip(labels), labels))


def official(shots: int, **parameters: Any) -> Cosmic:
    """Make the published program with so many slots in both spaces."""
    method = make_method("cosmic@official", shots=shots, aux_shots=shots, **parameters)
    assert isinstance(method, Cosmic)
    return method


def filled(method: Method[Any], stream: Stream) -> Any:
    """Return a state whose caches are full and whose graphs are built, as a long stream leaves them behind."""
    state = full(method, stream)
    method.step(state, stream.take(1)[0])
    return state


def full(method: Method[Any], stream: Stream) -> Any:
    """Return a state whose caches are full and whose graphs are due in the next step.

    The caches are filled directly, class by class; a method that has none steps through a stream twice its classes.
    """
    state: State = method.init(stream.task)
    if isinstance(state, CosmicState) and isinstance(method, Cosmic):
        for space in (state.css, state.afv):
            if space is not None:
                _fill(space.memory, space.rule, stream, aux=space is state.afv)
                space.nodes = None  # they know nothing of it
        most = stream.task.classes * max(method.shots, method.aux_shots)
        state.seen = (most // method.rebuild_every + 1) * method.rebuild_every  # the next step builds the graphs
    elif isinstance(state, DmnState):
        _fill(state.memory, Centring("attention", text=stream.task.unit_text), stream)
    elif isinstance(state, TdaState) and isinstance(method, Tda):
        _fill_tda(state, method.negative_mask, stream)
    else:
        method.steps(state, stream.take(2 * stream.task.classes + 200))
    return state


def _fill(memory: ClassMemory, rule: Centring, stream: Stream, *, aux: bool = False) -> None:
    shots = memory.cache.shots
    for label in range(stream.task.classes):
        features = (stream.aux if aux else stream.clip)(np.full(shots, label))
        for slot, entropy in enumerate(stream.entropies(shots, joint=aux)):
            memory.learn(rule, label, features[slot], entropy, slot * stream.task.classes + label)


def _fill_tda(state: TdaState, mask: tuple[float, float], stream: Stream) -> None:
    classes, (low, high) = stream.task.classes, mask
    for label in range(classes):
        for slot, feature in enumerate(stream.clip(np.full(state.positive.shots, label))):
            state.positive.offer(label, feature, stream.entropies(1)[0], slot * classes + label)
        features = stream.clip(np.full(state.negative.shots, label), UNSURE * NOISE)
        rows = stream.zero_shot(features)
        state.against[label] = (rows > np.float32(low)) & (rows < np.float32(high))
        for slot, feature in enumerate(features):
            state.negative.offer(label, feature, stream.entropies(1)[0], slot * classes + label)
    state.seen = classes * (state.positive.shots + state.negative.shots)


class Textbook:
    """The plain rendering of COSMIC and TDA in the repository's benchmarks, where it can be had."""

    def __init__(self) -> None:
        self.absent = ""  # why it can't be had
        places = [root / TEXTBOOK for root in (Path(__file__).resolve().parents[2], Path.cwd())]
        file = next((place for place in places if place.is_file()), None)
        if file is None:
            self.absent = f"{TEXTBOOK} is not here; run the command in the repository"
            return
        spec = spec_from_file_location("cosmic_tta_textbook", file)
        assert spec is not None
        assert spec.loader is not None
        self._module = module_from_spec(spec)
        try:
            spec.loader.exec_module(self._module)
        except ImportError as error:
            self.absent = f"{TEXTBOOK} needs {error.name}; install the extra `test`"

    def __bool__(self) -> bool:
        return not self.absent

    def cosmic(self, task: Task, shots: int) -> Any:
        """Begin a stream of COSMIC."""
        return self._module.TextbookCosmic(task.text, task.aux_dim, shots=shots, logit_scale=task.logit_scale)

    def tda(self, stream: Stream) -> Any:
        """Return a TDA whose caches are full, three and two samples a class, in no order of classes."""
        tda, insert = self._module.TextbookTda(stream.task.text, stream.task.logit_scale), self._module.insert
        for label in np.random.default_rng(0).permutation(stream.task.classes).tolist():
            for feature in stream.clip(np.full(3, label)):
                insert(tda.positive, label, [feature, stream.entropies(1)[0]], 3)
            features = stream.clip(np.full(2, label), UNSURE * NOISE)
            for feature, row in zip(features, stream.zero_shot(features), strict=True):
                insert(tda.negative, label, [feature, stream.entropies(1)[0], row], 2)
        return tda
