"""Streams by name, each seeded and on any pack: `make_stream("dirichlet:0.01", pack, seed)`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from cosmic_tta import arrivals
from cosmic_tta.arrivals import UNKNOWN, Draw, Stream
from cosmic_tta.errors import InputError, ParameterError, unknown_name
from cosmic_tta.packs import FeaturePack

__all__ = ["STREAMS", "UNKNOWN", "Stream", "check_stream", "find_kind", "is_correlated", "make_stream"]


@dataclass(frozen=True)
class Parameter:
    """The one number that a kind takes after a colon."""

    meaning: str
    default: float
    low: float
    high: float
    whole: bool = False


@dataclass(frozen=True)
class Kind:
    """How a stream is made, and what it asks for."""

    make: Callable[[Draw], Stream]
    parameter: Parameter | None = None
    labels: bool = True  # does it arrange or judge by label?
    seeded: bool = True
    correlated: bool = False  # do images of a class come together?
    narrows: bool = False  # does it take classes out of the task?


CONCENTRATION = Parameter("the concentration", 0.1, 1e-3, 1e3)
LIVE = Parameter("how many classes are live", 5, 1, 1e6, whole=True)
RAREST = Parameter("the rarest class's share of the largest", 0.03, 1e-6, 1.0)
MOVE = Parameter("the length of the offset that makes a second domain", 0.5, 0.0, 0.99)
TAKEN = Parameter("the unknown classes in percent", 25, 1e-3, 99.0)
TIMES = Parameter("how often an image comes at most", 5, 1, 1e3, whole=True)
POISON = Parameter("the poisoned steps in percent", 10, 0.0, 99.0)
STREAMS: Mapping[str, Kind] = {
    "given": Kind(arrivals.given, labels=False, seeded=False),
    "shuffle": Kind(arrivals.shuffle, labels=False),
    "class-sequential": Kind(arrivals.class_sequential, correlated=True),
    "dirichlet": Kind(arrivals.dirichlet, CONCENTRATION, correlated=True),
    "few-classes": Kind(arrivals.few_classes, LIVE, correlated=True),
    "long-tailed": Kind(arrivals.long_tailed, RAREST),
    "dominant": Kind(arrivals.dominant),
    "mixed": Kind(arrivals.mixed, MOVE, labels=False),
    "switching": Kind(arrivals.switching, MOVE, labels=False),
    "open-set": Kind(arrivals.open_set, TAKEN, narrows=True),
    "repeated": Kind(arrivals.repeated, TIMES, labels=False),
    "poisoned": Kind(arrivals.poisoned, POISON),
}


def find_kind(name: str) -> tuple[Kind, float]:
    """Return the kind of a stream's name, such as `shuffle` or `dirichlet:0.01`, and the value of its parameter."""
    base, colon, text = name.partition(":")
    if base not in STREAMS:
        raise unknown_name("order", base, STREAMS)
    kind = STREAMS[base]
    told = kind.parameter
    if told is None:
        if colon:
            raise ParameterError(f"the order {base!r} takes no number after a colon; given {name!r}.")
        return kind, 0.0
    if not colon:
        return kind, told.default
    number = "a whole number" if told.whole else "a number"
    wanted = f"the order {base!r} takes {told.meaning}, {number} from {told.low:g} to {told.high:g}, after the colon"
    try:
        value = float(text)
    except ValueError as error:
        raise ParameterError(f"{wanted}; given {name!r}. Without one it is {told.default:g}.") from error
    if not told.low <= value <= told.high or (told.whole and value != int(value)):
        raise ParameterError(f"{wanted}; given {name!r}. Without one it is {told.default:g}.")
    return kind, value


def is_correlated(name: str) -> bool:
    """Tell whether images of a class come together in a stream of that name."""
    return find_kind(name)[0].correlated


def check_stream(name: str, pack: FeaturePack, seed: int = 0, limit: int | None = None) -> None:
    """Refuse what `make_stream` would refuse of the words alone, without making the stream."""
    kind, _ = find_kind(name)
    if seed < 0:
        raise InputError(f"a seed must be 0 or more; given {seed}.")
    if limit is not None and limit < 1:
        raise InputError(f"the limit must be at least 1; given {limit}.")
    if kind.labels and pack.labels is None:
        blind = ", ".join(name for name, each in STREAMS.items() if not each.labels)
        raise InputError(f"the order {name!r} needs labels, and pack {pack.name!r} has none; these need none: {blind}.")
    if kind.parameter is MOVE and ":" in name and pack.domains is not None:
        raise ParameterError(
            f"the order {name!r} sets how far a second domain is moved, but pack {pack.name!r} has domains of its own."
        )


def make_stream(name: str, pack: FeaturePack, seed: int = 0, limit: int | None = None) -> Stream:
    """Make a stream by its name, `kind` or `kind:number`, on a pack; the first `limit` steps of it."""
    check_stream(name, pack, seed, limit)
    kind, value = find_kind(name)
    return kind.make(Draw(name, pack, seed, value)).cut(limit)
