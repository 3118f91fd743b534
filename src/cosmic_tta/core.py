"""The nouns: Task, Sample, Support, Prediction, State and Method.

A method is a frozen value of hyper-parameters; its state is another value, made by
`init` and changed by `step` alone. No noun here can hold a label of the stream.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, ClassVar, Generic, Protocol, TypeVar, final

import numpy as np

from cosmic_tta.errors import InputError, SnapshotError
from cosmic_tta.explanation import Explanation
from cosmic_tta.kernel import check_path
from cosmic_tta.ops import Array, Ints, unit
from cosmic_tta.parameters import check_parameters, values

UNIT_TOLERANCE = 1e-3  # a row in float16 is unit to within 1e-4
LARGEST_SCALE = 1e6
DERIVED = {"derived": True}  # metadata of a state's field that follows from the others: neither saved nor compared


class TextTower(Protocol):
    """A text tower that gradients pass: class texts as a function of context vectors before the class names.

    Arrays go in and come out; what computes them stays behind this protocol.
    """

    class_names: tuple[str, ...]
    width: int  # W, of a token's embedding
    dim: int  # D, of a text

    @property
    def fingerprint(self) -> str:
        """Of the weights, whatever the classes."""
        ...

    def opening(self, words: str) -> Array:
        """Return the token embeddings of some words, [n, W]."""
        ...

    def with_classes(self, class_names: tuple[str, ...]) -> TextTower:
        """Return the same tower for other classes."""
        ...

    def require(self, tokens: int) -> None:
        """Refuse a class name that leaves no room for so many context vectors."""
        ...

    def texts(self, context: Array) -> Array:
        """Return unit class texts [K, D] of a context [M, W], [B, K, D] of several contexts [B, M, W].

        A context for each class is written [B, K, M, W].
        """
        ...

    def differentiate(self, context: Array) -> tuple[Array, Callable[[Array], Array]]:
        """Return the class texts, and what pulls a gradient of them back to one of the context."""
        ...


@dataclass(frozen=True, eq=False)
class Task:
    """What stays fixed for one stream: the classes, their texts, the encoders."""

    class_names: tuple[str, ...]
    text: Array  # [K, D] unit rows
    logit_scale: float = 100.0
    aux_dim: int | None = None  # E; None: the first sample tells
    encoder: str = ""
    aux_encoder: str = ""
    tower: TextTower | None = field(default=None, repr=False)  # only methods that learn prompts ask for it; not saved

    def __post_init__(self) -> None:
        if isinstance(self.class_names, str):
            raise InputError(f"class_names must be a sequence of names; given the one string {self.class_names!r}.")
        names = tuple(self.class_names)
        if not names:
            raise InputError("a task needs at least one class; class_names is empty.")
        for name in names:
            if not isinstance(name, str) or not name:
                raise InputError(f"class names must be non-empty strings; given {name!r}.")
        twice = sorted(name for name, count in Counter(names).items() if count > 1)
        if twice:
            raise InputError(f"class names must differ; given more than once: {', '.join(map(repr, twice))}.")
        text = unit_rows(self.text, "text", ndim=2)
        if len(text) != len(names):
            raise InputError(f"text has {len(text)} rows for {len(names)} class names; give one row a class.")
        if isinstance(self.logit_scale, bool) or not hasattr(self.logit_scale, "__float__"):
            raise InputError(f"logit_scale must be a positive number; given {self.logit_scale!r}.")
        if not 0 < float(self.logit_scale) <= LARGEST_SCALE:
            raise InputError(f"logit_scale must be above 0, at most {LARGEST_SCALE:g}; given {self.logit_scale!r}.")
        if self.aux_dim is not None:
            if isinstance(self.aux_dim, bool) or not hasattr(self.aux_dim, "__index__") or self.aux_dim < 1:
                raise InputError(f"aux_dim must be a whole number, at least 1, or None; given {self.aux_dim!r}.")
            object.__setattr__(self, "aux_dim", int(self.aux_dim))
        if self.tower is not None and (self.tower.class_names, self.tower.dim) != (names, text.shape[1]):
            raise InputError(
                f"the text tower is of {len(self.tower.class_names)} classes, {self.tower.dim} wide; the task has "
                f"{len(names)}, {text.shape[1]} wide. Names and their order must be the same."
            )
        object.__setattr__(self, "class_names", names)
        object.__setattr__(self, "text", text)
        object.__setattr__(self, "logit_scale", float(self.logit_scale))

    @cached_property
    def classes(self) -> int:
        """K, the number of classes."""
        return len(self.class_names)

    @cached_property
    def dim(self) -> int:
        """D, the width of the CLIP features."""
        return int(self.text.shape[1])

    @cached_property
    def unit_text(self) -> Array:
        """The class texts, scaled to length one in float32."""
        return unit(self.text)

    @cached_property
    def text_length(self) -> Array:
        """The lengths of the class texts as given, one to within a thousandth."""
        length: Array = np.linalg.norm(self.text, axis=1)
        return length

    @cached_property
    def text_digest(self) -> str:
        """A fingerprint of the class texts: other prompts make another task."""
        return hashlib.blake2b(self.text.tobytes(), digest_size=16).hexdigest()


@dataclass(frozen=True, eq=False)
class Sample:
    """One encoded image. It carries no label."""

    clip: Array  # [V, D] unit rows, view 0 is the plain image
    aux: Array | None = None  # [E] unit

    def __post_init__(self) -> None:
        object.__setattr__(self, "clip", unit_rows(self.clip, "clip", ndim=2))
        if self.aux is not None:
            object.__setattr__(self, "aux", unit_rows(self.aux, "aux", ndim=1))

    @property
    def plain(self) -> Array:
        """The CLIP feature of the plain image, [D]."""
        row: Array = self.clip[0]
        return row


def unit_rows(values: Any, name: str, ndim: int) -> Array:
    """Check features at the boundary; return a read-only float32 copy, not renormalised.

    A copy, because the caller may use its buffer again, and read-only, because what was checked must stay so.
    """
    form = {1: "[width]", 2: "[rows, width]"}[ndim]
    try:
        rows = np.array(values, dtype=np.float32, order="C")
    except (TypeError, ValueError, RuntimeError) as error:
        hint = " A tensor is written x.detach().float().cpu().numpy()." if hasattr(values, "detach") else ""
        raise InputError(f"{name} must be an array of numbers {form}; given {type(values).__name__}.{hint}") from error
    if rows.ndim != ndim:
        extra = "; one view is written feature[None]" if (ndim, rows.ndim) == (2, 1) else ""
        raise InputError(f"{name} must have the shape {form}; given {list(rows.shape)}{extra}.")
    if 0 in rows.shape:
        raise InputError(
            f"{name} is empty: given the shape {list(rows.shape)}, expected {form} with at least one each."
        )
    norms = np.sqrt(np.einsum("...d,...d->...", rows, rows))
    if not np.isfinite(norms).all():
        raise InputError(f"{name} has NaN or infinity{_where(~np.isfinite(norms))}; check the encoder's output.")
    if not (norms > 0).all():
        raise InputError(f"{name} has a row of zeros{_where(norms == 0)}; check the encoder's output.")
    off = np.abs(norms - 1) > UNIT_TOLERANCE
    if off.any():
        worst = float(np.atleast_1d(norms)[np.atleast_1d(off)][0])
        raise InputError(
            f"{name} must have rows of length 1 (to within {UNIT_TOLERANCE:g}); given {worst:.4g}{_where(off)}. "
            f"Normalise it: x / np.linalg.norm(x, axis=-1, keepdims=True)."
        )
    rows.flags.writeable = False
    return rows


def _where(bad: Any) -> str:
    return f" in row {int(np.flatnonzero(bad)[0])}" if np.ndim(bad) else ""


@dataclass(frozen=True, eq=False)
class Support:
    """Labelled training features for the few-shot methods: never of the stream that is adapted to."""

    features: Array  # [n, D] unit rows
    labels: Ints  # [n]
    class_names: tuple[str, ...] | None = None  # if told, they must be the task's

    def __post_init__(self) -> None:
        object.__setattr__(self, "features", unit_rows(self.features, "support features", ndim=2))
        labels = np.array(self.labels)
        if labels.dtype.kind not in "iu" or labels.shape != (len(self.features),):
            given = f"{labels.dtype} {list(labels.shape)}"
            raise InputError(f"the support needs {len(self.features)} whole numbers as labels; given {given}.")
        object.__setattr__(self, "labels", labels.astype(np.int64))

    @cached_property
    def digest(self) -> str:
        """A fingerprint of the features and their labels."""
        content = self.features.tobytes() + self.labels.tobytes()
        return hashlib.blake2b(content, digest_size=16).hexdigest()


@dataclass(frozen=True, eq=False)
class Prediction:
    """The scores of one image, the branches behind them, and why."""

    scores: Array  # [K] non-negative, sum one
    parts: Mapping[str, Array]  # per branch [K]; `zero_shot` is always there
    explain: Callable[[], Explanation] = field(default=Explanation, repr=False)

    @property
    def label(self) -> int:
        """The index of the class with the highest score."""
        return int(self.scores.argmax())

    @cached_property
    def why(self) -> Explanation:
        """Built when first asked for; true for the moment of the prediction."""
        return self.explain()


@dataclass
class State:
    """What a method has learned from one stream; methods add their arrays."""

    task: Task
    seen: int  # samples that entered
    made_by: str = field(default="", init=False)  # the method and its parameters

    def validate(self) -> None:
        """Refuse contents that no stream can leave behind; called when a state comes back from a file."""
        if self.seen < 0:
            raise SnapshotError(f"the saved state has seen {self.seen} samples; the file is damaged.")


S = TypeVar("S", bound=State)


@dataclass(frozen=True)
class Method(ABC, Generic[S]):
    """A frozen set of hyper-parameters that turns samples into predictions.

    A concrete method is a final frozen dataclass with two functions: `init` and `_predict`.
    The checks at the boundary are here, once, so that a bad sample never changes a state.
    """

    name: ClassVar[str]
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {"default": {}}
    needs: ClassVar[tuple[str, ...]] = ()  # of: aux, support, tower, checkpoint

    def __post_init__(self) -> None:
        check_parameters(self)

    @abstractmethod
    def _init(self, task: Task) -> S:
        """Make the state of a stream that has seen nothing; with room for aux if `task.aux_dim` is set."""

    @abstractmethod
    def _predict(self, state: S, sample: Sample, *, learn: bool) -> Prediction:
        """Score a checked sample; with `learn`, let it enter the state first."""

    @cached_property
    def fingerprint(self) -> str:
        """The method and its parameters in one line."""
        given = {name: getattr(self, name, None) for name in ("support", "checkpoint")}
        told = [f" and {name} {value.digest}" for name, value in given.items() if value is not None]
        return f"{self.name} with {values(self)}{''.join(told)}"

    @final
    def init(self, task: Task) -> S:
        """Make the state of a stream that has seen nothing."""
        check_path()
        state = self._init(task)
        state.made_by = self.fingerprint
        return state

    @final
    def step(self, state: S, sample: Sample) -> Prediction:
        """Let the sample enter the state, then score it. Bad input leaves the state as it was."""
        self.check_state(state)
        check_sample(state, sample)
        return self._step(state, sample)

    @final
    def peek(self, state: S, sample: Sample) -> Prediction:
        """Score the sample against what the state knows, and change nothing."""
        self.check_state(state)
        check_sample(state, sample)
        if _tells_aux(state, sample):
            state = self.init(_with_aux(state.task, sample))
        return self._predict(state, sample, learn=False)

    @final
    def steps(self, state: S, samples: Iterable[Sample]) -> list[Prediction]:
        """Step through a block; the answers equal those of one step after the other."""
        samples = list(samples)
        self.check_block(state, samples)
        if samples:
            self._begin(state, samples[0])
        return self._block(state, samples)

    @final
    def check_block(self, state: S, samples: Sequence[Sample]) -> None:
        """Refuse a block that `steps` would refuse, and change nothing."""
        self.check_state(state)
        expected = _expected_aux(state)
        for number, sample in enumerate(samples):
            check_widths(state.task, expected, sample, where=f"sample {number} of the block: ")
            if number == 0 and expected is UNTOLD:
                expected = None if sample.aux is None else len(sample.aux)

    @final
    def carry(self, state: S, task: Task, places: Ints) -> tuple[Method[S], S]:
        """Go on with other classes: return the method and the state for a new task.

        `places` [K] tells for each of its classes which one of the old it was, -1 for a new one. What a class has
        learned goes with it, a new class begins empty, and of one that is gone nothing stays in any slot.
        """
        self.check_state(state)
        places = np.array(places, np.int64)
        held = places[places >= 0]
        if places.shape != (task.classes,) or (places >= state.task.classes).any() or (places < -1).any():
            raise InputError(f"places must be {task.classes} numbers of the {state.task.classes} old classes, or -1.")
        if len(np.unique(held)) < len(held):
            raise InputError("two classes cannot both be the same old one.")
        if task.dim != state.task.dim or task.aux_dim not in (None, state.task.aux_dim):
            raise InputError("another width of features makes another stream; start a new state.")
        task = replace(task, aux_dim=state.task.aux_dim)
        method = self._for_classes(places)
        carried = method._carry(state, task, places)
        carried.made_by = method.fingerprint
        return method, carried

    def _for_classes(self, places: Ints) -> Method[S]:
        """Return the method for other classes, where it knows classes itself."""
        return self

    def _carry(self, state: S, task: Task, places: Ints) -> S:
        """Return a new state for other classes; one that has learned nothing just goes on counting."""
        carried = self.init(task)
        carried.seen = state.seen
        return carried

    def _block(self, state: S, samples: list[Sample]) -> list[Prediction]:
        """Step through checked samples; a method that can look ahead does it here."""
        return [self._step(state, sample) for sample in samples]

    def check_state(self, state: State) -> None:
        """Refuse a state that another method made, or this one with other parameters."""
        if state.made_by != self.fingerprint:
            raise InputError(f"this state was made by {state.made_by or 'no method'}, not by {self.fingerprint}.")

    def _step(self, state: S, sample: Sample) -> Prediction:
        self._begin(state, sample)
        prediction = self._predict(state, sample, learn=True)
        state.seen += 1
        return prediction

    def _begin(self, state: S, sample: Sample) -> None:
        if _tells_aux(state, sample):
            # Nothing was learned yet, so the state is made anew, now knowing the auxiliary width.
            told = self.init(_with_aux(state.task, sample))
            for part in fields(state):
                setattr(state, part.name, getattr(told, part.name))


class _Untold:
    """The auxiliary width of a stream that has not begun."""


UNTOLD = _Untold()


def _expected_aux(state: State) -> int | _Untold | None:
    return UNTOLD if state.seen == 0 and state.task.aux_dim is None else state.task.aux_dim


def _tells_aux(state: State, sample: Sample) -> bool:
    return _expected_aux(state) is UNTOLD and sample.aux is not None


def _with_aux(task: Task, sample: Sample) -> Task:
    return replace(task, aux_dim=None if sample.aux is None else len(sample.aux))


def check_sample(state: State, sample: Sample) -> None:
    """Refuse a sample that does not fit the stream."""
    check_widths(state.task, _expected_aux(state), sample)


def check_widths(task: Task, aux_dim: int | _Untold | None, sample: Sample, where: str = "") -> None:
    """Refuse a sample of other widths than the task's texts and the stream's auxiliary features."""
    if not isinstance(sample, Sample):
        raise InputError(f"{where}expected a Sample; given {type(sample).__name__}. Write Sample(clip=..., aux=...).")
    width = sample.clip.shape[1]
    if width != task.dim:
        raise InputError(f"{where}clip features are {width} wide, but the class texts are {task.dim} wide.")
    if isinstance(aux_dim, _Untold):
        return
    if sample.aux is None and aux_dim is not None:
        raise InputError(f"{where}the auxiliary feature is missing; this stream has them, {aux_dim} wide.")
    if sample.aux is not None and aux_dim is None:
        raise InputError(f"{where}an auxiliary feature appeared in a stream that began without; start a new state.")
    if sample.aux is not None and len(sample.aux) != aux_dim:
        raise InputError(f"{where}the auxiliary feature is {len(sample.aux)} wide; this stream's are {aux_dim} wide.")
