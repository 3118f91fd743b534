"""What can go wrong: one root, a few kinds.

Every message names what was given, what was expected and what to do next.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches


class CosmicError(Exception):
    """Any error that cosmic-tta raises on purpose."""


class InputError(CosmicError, ValueError):
    """A task, a sample or an array that cannot be used."""


class ParameterError(CosmicError, ValueError):
    """A parameter of a method that is unknown or out of range."""


class UnknownNameError(CosmicError, LookupError):
    """A name that is in no registry."""


class PackError(CosmicError, ValueError):
    """A feature pack that is missing, damaged or contradicts itself."""


class PictureError(CosmicError, ValueError):
    """A picture that cannot be decoded, or is refused before it is."""


class UnreadableError(PictureError):
    """A picture whose file cannot be read: absent, or on a drive that has gone."""


class EncoderError(CosmicError, ValueError):
    """An encoder that is unknown, or whose weights are missing or do not fit."""


class DatasetError(CosmicError, ValueError):
    """A data set that is missing, incomplete or not laid out as expected."""


class SnapshotError(CosmicError, ValueError):
    """A saved state that is damaged or belongs to something else."""


class StorageError(CosmicError, OSError):
    """A disk that refused: full, gone or broken. What was there before still is."""


class LockedError(CosmicError, RuntimeError):
    """A folder that another process is writing to."""


class SessionError(CosmicError, ValueError):
    """A session that cannot do what was asked, or belongs to something else."""


class SessionDamaged(SessionError):  # noqa: N818 - it is a state of the files, told as an error
    """A session whose files were damaged; `recoverable` is the last event that can be had back, None: not at all."""

    def __init__(self, message: str, recoverable: int | None = None) -> None:
        super().__init__(message)
        self.recoverable = recoverable


def unknown_name(kind: str, given: str, known: Iterable[str]) -> UnknownNameError:
    """Build the error for a name that is not known, with the nearest one that is.

    >>> str(unknown_name("method", "cosmik", ["cosmic", "tda"]))
    "unknown method 'cosmik': did you mean 'cosmic'? Known: cosmic, tda."
    """
    names = sorted(known)
    near = get_close_matches(given, names, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}? " if near else ""
    return UnknownNameError(f"unknown {kind} {given!r}: {hint}Known: {', '.join(names)}.")


def no_twin(what: str, names: Sequence[str]) -> None:
    """Refuse a name that is given twice."""
    twins = sorted({name for name in names if names.count(name) > 1})
    if twins:
        raise InputError(f"{what}: given twice: {', '.join(twins)}. Runs of the same name could not be told apart.")
