"""Method: the base class of all methods, with the checks of what goes in."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, ClassVar, Generic, TypeVar, final

import numpy as np

from cosmic_tta.core.arrays import Ints
from cosmic_tta.core.errors import InputError
from cosmic_tta.core.kernel import check_path
from cosmic_tta.core.memory import FeatureMemory
from cosmic_tta.core.parameters import check_parameters, values
from cosmic_tta.core.types import Prediction, Sample, State, Task

S = TypeVar("S", bound=State)


@dataclass(frozen=True)
class Method(ABC, Generic[S]):
    """A frozen set of hyper-parameters that turns samples into predictions.

    What is learned lives in a separate state: `init` makes it, and `step` and `steps` alone change it.
    A concrete method is a final frozen dataclass that implements `_init` and `_predict`.
    Every sample is checked here, so a bad sample never changes a state.

    Attributes:
        name: Name in the registry, `--method NAME` on the command line.
        presets: Named sets of parameters. `default` must be among them.
        needs: What the method needs beside its parameters, of: aux, support, tower, checkpoint.
        year: Year of publication. Lists show methods by what they need, then by year.

    Examples:
        >>> from cosmic_tta import Task, Sample, Tda
        >>> method = Tda(shots=2)
        >>> state = method.init(Task(("cat", "dog"), np.eye(2)))
        >>> method.step(state, Sample(np.eye(1, 2))).label, state.seen
        (0, 1)
        >>> method.peek(state, Sample(np.eye(2)[1:])).label, state.seen
        (1, 1)
    """

    name: ClassVar[str]
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {"default": {}}
    needs: ClassVar[tuple[str, ...]] = ()
    year: ClassVar[int | None] = None

    def __post_init__(self) -> None:
        check_parameters(self)

    @abstractmethod
    def _init(self, task: Task) -> S:
        """Make an empty state; with arrays for auxiliary features if `task.aux_dim` is set."""

    @abstractmethod
    def _predict(self, state: S, sample: Sample, *, learn: bool) -> Prediction:
        """Score a checked sample. With `learn`, the sample first enters the state."""

    @cached_property
    def fingerprint(self) -> str:
        """The method and its parameters in one line."""
        resources = {name: getattr(self, name, None) for name in ("support", "checkpoint")}
        given = [f" and {name} {value.digest}" for name, value in resources.items() if value is not None]
        return f"{self.name} with {values(self)}{''.join(given)}"

    @final
    def init(self, task: Task) -> S:
        """Make the state of a stream that has seen no sample.

        Args:
            task: The classes of the stream and their texts.

        Returns:
            A state for `step`, `steps` and `peek` of this method.

        Raises:
            InputError: The task does not fit the method, for example its support or checkpoint.
        """
        check_path()
        state = self._init(task)
        state.made_by = self.fingerprint
        return state

    @final
    def step(self, state: S, sample: Sample) -> Prediction:
        """Let a sample enter the state, then score it.

        Args:
            state: A state that this method made. It is changed.
            sample: The encoded image.

        Returns:
            The prediction.

        Raises:
            InputError: State or sample do not fit. The state is unchanged.
        """
        self.check_state(state)
        check_sample(state, sample)
        return self._step(state, sample)

    @final
    def peek(self, state: S, sample: Sample) -> Prediction:
        """Score a sample without changing the state.

        Args:
            state: A state that this method made.
            sample: The encoded image.

        Returns:
            The prediction.

        Raises:
            InputError: State or sample do not fit.
        """
        self.check_state(state)
        check_sample(state, sample)
        return self._predict(self._with_aux_width(state, sample), sample, learn=False)

    @final
    def steps(self, state: S, samples: Iterable[Sample]) -> list[Prediction]:
        """Step through a block of samples. The result equals that of one `step` after the other.

        Args:
            state: A state that this method made. It is changed.
            samples: The encoded images in their order.

        Returns:
            One prediction per sample.

        Raises:
            InputError: State or a sample do not fit. The state is unchanged.
        """
        samples = list(samples)
        self.check_block(state, samples)
        if samples:
            self._adopt_aux_width(state, samples[0])
        return self._block(state, samples)

    @final
    def check_block(self, state: S, samples: Sequence[Sample]) -> None:
        """Raise the error that `steps` would raise, and change nothing."""
        self.check_state(state)
        task, first = state.task, state.aux_undecided
        for number, sample in enumerate(samples):
            check_widths(task, sample, first=first, where=f"sample {number} of the block: ")
            if first:
                task, first = _task_of_first(task, sample), False

    @final
    def remap_classes(self, state: S, task: Task, class_map: Ints) -> tuple[Method[S], S]:
        """Continue a stream with other classes.

        What a class has learned stays with it. A new class begins empty. Nothing of a removed class remains.

        Args:
            state: A state that this method made. It is unchanged.
            task: The new classes.
            class_map: For each new class the index of the old class that it was, -1 for a new one, [K].

        Returns:
            The method and the state for the new task.

        Raises:
            InputError: The map does not fit, or the widths of the features differ.
        """
        self.check_state(state)
        class_map = np.array(class_map, np.int64)
        held = class_map[class_map >= 0]
        if class_map.shape != (task.classes,) or (class_map >= state.task.classes).any() or (class_map < -1).any():
            raise InputError(
                f"class_map must be {task.classes} numbers of the {state.task.classes} old classes, or -1."
            )
        if len(np.unique(held)) < len(held):
            raise InputError("two classes cannot both be the same old one.")
        if task.dim != state.task.dim or task.aux_dim not in (None, state.task.aux_dim):
            raise InputError("another width of features makes another stream; start a new state.")
        task = replace(task, aux_dim=state.task.aux_dim)
        method = self._for_classes(class_map)
        remapped = method._remap_classes(state, task, class_map)
        remapped.made_by = method.fingerprint
        return method, remapped

    def _for_classes(self, class_map: Ints) -> Method[S]:
        """Return the method for other classes. Override it if the method itself depends on the classes."""
        return self

    def _remap_classes(self, state: S, task: Task, class_map: Ints) -> S:
        """Return a new state for other classes. Override it if the state keeps anything per class."""
        remapped = self.init(task)
        remapped.seen = state.seen
        return remapped

    def memories(self, state: S) -> tuple[FeatureMemory, ...]:
        """Return the features that a state keeps, for reports and the dashboard.

        Args:
            state: A state that this method made. It is unchanged.

        Returns:
            The memories, the most important one first; none if the method keeps no features.
        """
        return ()

    def _block(self, state: S, samples: list[Sample]) -> list[Prediction]:
        """Step through checked samples. Override it where a block can be computed faster."""
        return [self._step(state, sample) for sample in samples]

    def check_state(self, state: State) -> None:
        """Raise an InputError for a state of another method, or of this one with other parameters."""
        if state.made_by != self.fingerprint:
            raise InputError(f"this state was made by {state.made_by or 'no method'}, not by {self.fingerprint}.")

    def _step(self, state: S, sample: Sample) -> Prediction:
        if not state.seen:
            self._adopt_aux_width(state, sample)
        prediction = self._predict(state, sample, learn=True)
        state.seen += 1
        return prediction

    def _with_aux_width(self, state: S, sample: Sample) -> S:
        """Return the state, or an empty one for auxiliary features if its first sample is the first to have them."""
        if state.aux_undecided and sample.aux is not None:
            return self.init(_task_of_first(state.task, sample))
        return state

    def _adopt_aux_width(self, state: S, sample: Sample) -> None:
        """Replace the fields of an empty state if its first sample has auxiliary features that the task left open."""
        adopted = self._with_aux_width(state, sample)
        if adopted is not state:
            for part in fields(state):
                setattr(state, part.name, getattr(adopted, part.name))


def _task_of_first(task: Task, sample: Sample) -> Task:
    """Return the task with the auxiliary width of the stream's first sample."""
    return task if sample.aux is None else replace(task, aux_dim=len(sample.aux))


def check_sample(state: State, sample: Sample) -> None:
    """Raise an InputError for a sample that does not fit the stream."""
    check_widths(state.task, sample, first=state.seen == 0 and state.aux_undecided)


def check_widths(task: Task, sample: Sample, *, first: bool, where: str = "") -> None:
    """Raise an InputError for a sample of other widths than the task's.

    Args:
        task: The task of the stream.
        sample: The sample.
        first: The sample is the first of a stream whose auxiliary width is open: any width fits.
        where: Beginning of the message.
    """
    if not isinstance(sample, Sample):
        raise InputError(f"{where}expected a Sample; given {type(sample).__name__}. Write Sample(clip=..., aux=...).")
    width, aux_dim = sample.clip.shape[1], task.aux_dim
    if width != task.dim:
        raise InputError(f"{where}clip features are {width} wide, but the class texts are {task.dim} wide.")
    if first:
        return
    if sample.aux is None and aux_dim is not None:
        raise InputError(f"{where}the auxiliary feature is missing; this stream has them, {aux_dim} wide.")
    if sample.aux is not None and aux_dim is None:
        raise InputError(f"{where}an auxiliary feature appeared in a stream that began without; start a new state.")
    if sample.aux is not None and len(sample.aux) != aux_dim:
        raise InputError(f"{where}the auxiliary feature is {len(sample.aux)} wide; this stream's are {aux_dim} wide.")
