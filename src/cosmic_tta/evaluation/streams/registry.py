"""Streams by name: `make_stream("dirichlet:0.01", pack, seed)`. Each is seeded and works on any pack."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from cosmic_tta.core.errors import InputError, ParameterError, unknown_name
from cosmic_tta.evaluation.streams import orders
from cosmic_tta.evaluation.streams.stream import EvaluationStream, StreamRequest
from cosmic_tta.features.pack import FeaturePack


@dataclass(frozen=True)
class StreamParameter:
    """The number that a kind of stream takes after a colon."""

    meaning: str
    default: float
    low: float
    high: float
    whole: bool = False


@dataclass(frozen=True)
class StreamKind:
    """A kind of stream: the function that makes it, and its properties.

    Args:
        make: The function that makes the stream.
        parameter: The number after the colon; None if there is none.
        needs_labels: Whether labels arrange the stream or choose its counted steps.
        seeded: Whether the seed changes the stream.
        correlated: Whether images of one class arrive together.
        removes_classes: Whether the task has fewer classes than the pack.

    Example:
        >>> STREAMS["dirichlet"].correlated, STREAMS["dirichlet"].parameter.default
        (True, 0.1)
    """

    make: Callable[[StreamRequest], EvaluationStream]
    parameter: StreamParameter | None = None
    needs_labels: bool = True
    seeded: bool = True
    correlated: bool = False
    removes_classes: bool = False


CONCENTRATION = StreamParameter("the concentration", 0.1, 1e-3, 1e3)
ACTIVE_CLASSES = StreamParameter("the number of active classes", 5, 1, 1e6, whole=True)
SMALLEST_SHARE = StreamParameter("the size of the smallest class as a share of the largest", 0.03, 1e-6, 1.0)
OCCURRING_PERCENT = StreamParameter("the occurring classes in percent", 25, 1e-3, 100.0)
DOMAIN_OFFSET = StreamParameter("the length of the offset that makes a second domain", 0.5, 0.0, 0.99)
REMOVED_PERCENT = StreamParameter("the removed classes in percent", 25, 1e-3, 99.0)
MAX_REPEATS = StreamParameter("the largest number of times that an image is shown", 5, 1, 1e3, whole=True)
POISON_PERCENT = StreamParameter("the poisoned steps in percent", 10, 0.0, 99.0)
STREAMS: Mapping[str, StreamKind] = {
    "given": StreamKind(orders.given, needs_labels=False, seeded=False),
    "shuffle": StreamKind(orders.shuffle, needs_labels=False),
    "class-sequential": StreamKind(orders.class_sequential, correlated=True),
    "dirichlet": StreamKind(orders.dirichlet, CONCENTRATION, correlated=True),
    "few-classes": StreamKind(orders.few_classes, ACTIVE_CLASSES, correlated=True),
    "long-tailed": StreamKind(orders.long_tailed, SMALLEST_SHARE),
    "dominant": StreamKind(orders.dominant),
    "absent": StreamKind(orders.absent, OCCURRING_PERCENT),
    "mixed": StreamKind(orders.mixed, DOMAIN_OFFSET, needs_labels=False),
    "switching": StreamKind(orders.switching, DOMAIN_OFFSET, needs_labels=False),
    "open-set": StreamKind(orders.open_set, REMOVED_PERCENT, removes_classes=True),
    "repeated": StreamKind(orders.repeated, MAX_REPEATS, needs_labels=False),
    "poisoned": StreamKind(orders.poisoned, POISON_PERCENT),
}


def find_kind(name: str) -> tuple[StreamKind, float]:
    """Return the kind of a stream's name, such as `shuffle` or `dirichlet:0.01`, and the value of its parameter."""
    base, colon, text = name.partition(":")
    if base not in STREAMS:
        raise unknown_name("order", base, STREAMS)
    kind = STREAMS[base]
    parameter = kind.parameter
    if parameter is None:
        if colon:
            raise ParameterError(f"the order {base!r} takes no number after a colon; given {name!r}.")
        return kind, 0.0
    if not colon:
        return kind, parameter.default
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    in_range = parameter.low <= value <= parameter.high
    if not in_range or (parameter.whole and value != int(value)):
        number = "a whole number" if parameter.whole else "a number"
        raise ParameterError(
            f"the order {base!r} takes {parameter.meaning}, {number} from {parameter.low:g} to {parameter.high:g}, "
            f"after the colon; given {name!r}. Without one it is {parameter.default:g}."
        )
    return kind, value


def is_correlated(name: str) -> bool:
    """Return whether images of one class arrive together in the stream of that name."""
    return find_kind(name)[0].correlated


def check_stream(name: str, pack: FeaturePack, seed: int = 0, limit: int | None = None) -> None:
    """Raise what `make_stream` would raise for these arguments, without making the stream."""
    kind, _ = find_kind(name)
    if seed < 0:
        raise InputError(f"a seed must be 0 or more; given {seed}.")
    if limit is not None and limit < 1:
        raise InputError(f"the limit must be at least 1; given {limit}.")
    if kind.needs_labels and pack.labels is None:
        without = ", ".join(other for other, each in STREAMS.items() if not each.needs_labels)
        raise InputError(
            f"the order {name!r} needs labels, and pack {pack.name!r} has none; these need none: {without}."
        )
    if kind.parameter is DOMAIN_OFFSET and ":" in name and pack.domains is not None:
        raise ParameterError(
            f"the order {name!r} sets the offset of a second domain, but pack {pack.name!r} has domains of its own; "
            "leave out the number."
        )


def make_stream(name: str, pack: FeaturePack, seed: int = 0, limit: int | None = None) -> EvaluationStream:
    """Make a stream of a pack's images.

    Args:
        name: `kind` or `kind:number`; `STREAMS` lists the kinds.
        pack: The features, with labels for the kinds that need them.
        seed: Equal seeds give equal streams on every machine.
        limit: Keep the first steps only.

    Returns:
        The stream.

    Raises:
        UnknownNameError: There is no such kind.
        ParameterError: The number after the colon is out of range.
        InputError: The pack, the seed or the limit cannot be used.

    Example:
        >>> from cosmic_tta.features.synthetic import superclass_pack
        >>> make_stream("given", superclass_pack(images=20), limit=3).order.tolist()
        [0, 1, 2]
    """
    check_stream(name, pack, seed, limit)
    kind, value = find_kind(name)
    return kind.make(StreamRequest(name, pack, seed, value)).cut(limit)
