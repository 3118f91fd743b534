"""The values that methods work with: Task, Sample, Support, Prediction and State.

None of them can hold a label of the stream that a method adapts to.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from cosmic_tta.core.arrays import Array, Ints, agreement, unit
from cosmic_tta.core.errors import InputError, SnapshotError
from cosmic_tta.core.explanation import Explanation

UNIT_TOLERANCE = 1e-3  # a row in float16 is unit to within 1e-4
MAX_LOGIT_SCALE = 1e6

# Metadata for the fields of a state: field(metadata=...). `core.state_tree` reads them.
DERIVED = {"derived": True}  # follows from the other fields; neither saved nor compared
SAMPLE_INDEX = {"sample_index": True}  # numbers of samples of the stream; a saved one must be below `seen`
MAY_BE_INFINITE = {"may_be_infinite": True}  # a saved array may hold infinity or NaN; `validate` checks it


class PromptTower(Protocol):
    """A text encoder with gradients: class texts as a function of context vectors before the class names.

    Its inputs and outputs are NumPy arrays, so that methods need no deep-learning library.

    Example:
        >>> sorted(name for name in vars(PromptTower) if name in ("texts", "differentiate", "with_classes"))
        ['differentiate', 'texts', 'with_classes']
    """

    class_names: tuple[str, ...]
    width: int  # W, width of a token embedding
    dim: int  # D, width of a class text

    @property
    def fingerprint(self) -> str:
        """Fingerprint of the weights; it does not depend on the classes."""
        ...

    def opening(self, words: str) -> Array:
        """Return the token embeddings of some words, [n, W]."""
        ...

    def with_classes(self, class_names: tuple[str, ...]) -> PromptTower:
        """Return the same tower for other classes."""
        ...

    def require(self, tokens: int) -> None:
        """Raise an error if a class name leaves no room for this many context vectors."""
        ...

    def texts(self, context: Array) -> Array:
        """Return unit class texts [K, D] of a context [M, W].

        Several contexts [B, M, W] give [B, K, D]. Contexts per class have the shape [B, K, M, W].
        """
        ...

    def differentiate(self, context: Array) -> tuple[Array, Callable[[Array], Array]]:
        """Return the class texts, and a function from their gradient to the gradient of the context."""
        ...


@dataclass(frozen=True, eq=False)
class Task:
    """What stays fixed during one stream: the classes, their text features, the encoders.

    Args:
        class_names: One name per class. Names must differ.
        text: Text features of the classes [K, D], rows of length one.
        logit_scale: Factor of the cosines before a softmax.
        aux_dim: Width E of the auxiliary features. None: the first sample of the stream decides.
        encoder: Name of the CLIP encoder. Saved states are refused under another name.
        aux_encoder: Name of the auxiliary encoder.
        tower: Text encoder with gradients, for methods that learn prompts. It is not saved.

    Raises:
        InputError: A value cannot be used. The message says which, and what is expected.

    Examples:
        >>> task = Task(("cat", "dog"), np.eye(2, 4))
        >>> task.classes, task.dim
        (2, 4)
    """

    class_names: tuple[str, ...]
    text: Array
    logit_scale: float = 100.0
    aux_dim: int | None = None
    encoder: str = ""
    aux_encoder: str = ""
    tower: PromptTower | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if isinstance(self.class_names, str):
            raise InputError(f"class_names must be a sequence of names; given the one string {self.class_names!r}.")
        names = tuple(self.class_names)
        if not names:
            raise InputError("a task needs at least one class; class_names is empty.")
        for name in names:
            if not isinstance(name, str) or not name:
                raise InputError(f"class names must be non-empty strings; given {name!r}.")
        repeated = sorted(name for name, count in Counter(names).items() if count > 1)
        if repeated:
            raise InputError(f"class names must differ; given more than once: {', '.join(map(repr, repeated))}.")
        text = unit_rows(self.text, "text", ndim=2)
        if len(text) != len(names):
            raise InputError(f"text has {len(text)} rows for {len(names)} class names; give one row per class.")
        if isinstance(self.logit_scale, bool) or not hasattr(self.logit_scale, "__float__"):
            raise InputError(f"logit_scale must be a positive number; given {self.logit_scale!r}.")
        if not 0 < float(self.logit_scale) <= MAX_LOGIT_SCALE:
            raise InputError(f"logit_scale must be above 0, at most {MAX_LOGIT_SCALE:g}; given {self.logit_scale!r}.")
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
        """The class texts, scaled to length one in float32, [K, D]."""
        return unit(self.text)

    @cached_property
    def text_length(self) -> Array:
        """The lengths of the class texts as given [K], one to within a thousandth."""
        length: Array = np.linalg.norm(self.text, axis=1)
        return length

    @cached_property
    def text_digest(self) -> str:
        """A fingerprint of the class texts."""
        return hashlib.blake2b(self.text.tobytes(), digest_size=16).hexdigest()


@dataclass(frozen=True, eq=False)
class Sample:
    """One encoded image. It carries no label.

    Args:
        clip: CLIP features of the views [V, D], rows of length one. View 0 is the image without augmentation.
        aux: Auxiliary feature [E] of length one, where there is an auxiliary encoder.

    Raises:
        InputError: An array has the wrong shape, NaN, infinity, or rows that are not of length one.

    Examples:
        >>> sample = Sample(np.eye(3, 4), aux=np.eye(1, 5)[0])
        >>> sample.plain.tolist()
        [1.0, 0.0, 0.0, 0.0]
    """

    clip: Array
    aux: Array | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "clip", unit_rows(self.clip, "clip", ndim=2))
        if self.aux is not None:
            object.__setattr__(self, "aux", unit_rows(self.aux, "aux", ndim=1))

    @property
    def plain(self) -> Array:
        """The CLIP feature of the image without augmentation, [D]."""
        row: Array = self.clip[0]
        return row


def unit_rows(values: Any, name: str, ndim: int) -> Array:
    """Check features and return a read-only float32 copy, not renormalised.

    It is a copy because the caller may reuse its buffer, and read-only because checked values must not change.
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
            f"{name} is empty: given the shape {list(rows.shape)}, expected {form} with at least one of each."
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
    """Labelled training features for few-shot methods. They must not come from the stream that is adapted to.

    Args:
        features: CLIP features [n, D], rows of length one.
        labels: Class index per row, [n].
        class_names: The classes that the labels count. If given, they must be those of the task.

    Raises:
        InputError: The features or labels cannot be used.

    Examples:
        >>> Support(np.eye(2, 4), [1, 0]).labels.tolist()
        [1, 0]
    """

    features: Array
    labels: Ints
    class_names: tuple[str, ...] | None = None

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
    """The scores of one image, the parts that they were made of, and an explanation.

    Args:
        scores: Probability per class, [K]: non-negative, sum one.
        parts: Scores per branch, [K] each. `zero_shot` is always among them.
        explain: Function that builds the explanation. It must not read what a later step changes.

    Examples:
        >>> scores = np.array([0.2, 0.8], np.float32)
        >>> Prediction(scores, {"zero_shot": scores}).label
        1
    """

    scores: Array
    parts: Mapping[str, Array]
    explain: Callable[[], Explanation] = field(default=Explanation, repr=False)

    @property
    def label(self) -> int:
        """The index of the class with the highest score."""
        return int(self.scores.argmax())

    @property
    def unknown(self) -> float:
        """How likely the image is of none of the classes, from 0 to 1.

        It is 1 - `agreement` of zero-shot and the method: high where zero-shot is unsure or the two contradict each
        other. It ranks images; it is not calibrated.
        """
        return min(max(1.0 - float(agreement(self.parts["zero_shot"], self.scores)), 0.0), 1.0)

    @cached_property
    def why(self) -> Explanation:
        """The explanation, built on first access; it describes the state at the time of the prediction."""
        return self.explain()


@dataclass
class State:
    """What a method has learned from one stream. A method extends it with fields of its own.

    Fields hold NumPy arrays, numbers and dataclasses of them, so that every state can be saved.

    Args:
        task: The classes and their texts.
        seen: Number of samples that entered.

    Examples:
        >>> State(Task(("cat", "dog"), np.eye(2)), seen=0).aux_undecided
        True
    """

    task: Task
    seen: int
    made_by: str = field(default="", init=False)  # the method and its parameters

    @property
    def aux_undecided(self) -> bool:
        """Whether the next sample decides if the stream has auxiliary features, and how wide they are."""
        return self.seen == 0 and self.task.aux_dim is None

    def validate(self) -> None:
        """Raise a SnapshotError for contents that no stream can leave behind. Called after a state was loaded."""
        if self.seen < 0:
            raise SnapshotError(f"the saved state has seen {self.seen} samples; the file is damaged.")
