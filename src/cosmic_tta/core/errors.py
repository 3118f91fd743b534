"""The exceptions of the package: one root and a few kinds.

Every message says what was given, what was expected and what to do next.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches


class CosmicError(Exception):
    """Base class of every error that cosmic-tta raises on purpose.

    Examples:
        >>> from cosmic_tta import make_method
        >>> try:
        ...     make_method("cosmic", shots=0)
        ... except CosmicError as error:
        ...     print(error)
        cosmic: shots must be from 1 to 1e+06; given 0.
    """


class InputError(CosmicError, ValueError):
    """A task, sample, array or command-line option cannot be used."""


class ParameterError(CosmicError, ValueError):
    """A parameter of a method is unknown or out of range."""


class UnknownNameError(CosmicError, LookupError):
    """A name is in no registry."""


class PackError(CosmicError, ValueError):
    """A feature pack is missing, damaged or contradicts itself."""


class ImageError(CosmicError, ValueError):
    """An image cannot be decoded, or is refused before it is decoded."""


class UnreadableImageError(ImageError):
    """The file of an image cannot be read: it is absent, or its drive is."""


class EncoderError(CosmicError, ValueError):
    """An encoder is unknown, or its weights are missing or do not fit."""


class DatasetError(CosmicError, ValueError):
    """A data set is missing, incomplete or not laid out as expected."""


class SnapshotError(CosmicError, ValueError):
    """A saved state is damaged, or belongs to another method, task or format."""


class StorageError(CosmicError, OSError):
    """The disk refused an operation: it is full, absent or broken. The previous file is unchanged."""


class LockedError(CosmicError, RuntimeError):
    """Another process writes to this folder."""


class SessionError(CosmicError, ValueError):
    """A session cannot do what was asked, or belongs to something else."""


class SessionFormatError(SessionError):
    """The files of a session were written by another version, in a format that this one does not read."""


class SessionDamagedError(SessionError):
    """The files of a session are damaged.

    Attributes:
        recoverable: The last event that can be recovered. None if there is none.
    """

    def __init__(self, message: str, recoverable: int | None = None) -> None:
        super().__init__(message)
        self.recoverable = recoverable


def unknown_name(kind: str, given: str, known: Iterable[str]) -> UnknownNameError:
    """Build the error for an unknown name, with the nearest known one.

    Args:
        kind: What the name should be a name of.
        given: The name.
        known: All known names.

    Returns:
        The error, to be raised by the caller.

    Examples:
        >>> str(unknown_name("method", "cosmik", ["cosmic", "tda"]))
        "unknown method 'cosmik': did you mean 'cosmic'? Known: cosmic, tda."
    """
    names = sorted(known)
    by_lower = {name.lower(): name for name in reversed(names)}
    near = get_close_matches(given.lower(), by_lower, n=1, cutoff=0.5)
    hint = f": did you mean {by_lower[near[0]]!r}?" if near else "."
    return UnknownNameError(f"unknown {kind} {given!r}{hint} Known: {', '.join(names)}.")


def install_extra(extra: str) -> str:
    """Return the commands that install an extra of this package: from an index, and in a clone.

    >>> print(install_extra("serve"))
    pip install 'cosmic-tta[serve]', in a clone pip install -e '.[serve]'
    """
    return f"pip install 'cosmic-tta[{extra}]', in a clone pip install -e '.[{extra}]'"


def missing_packages(needed_by: str, packages: Sequence[str], install: str) -> str:
    """Return the sentences that say which packages are missing, and what installs them.

    Args:
        needed_by: What needs them, with its verb.
        packages: The packages that are not installed.
        install: The commands that install them.

    Examples:
        >>> print(missing_packages("onnx: encoders need", ["onnxruntime"], "pip install onnxruntime"))
        onnx: encoders need onnxruntime, which is not installed. Run: pip install onnxruntime.
    """
    listed = " and ".join(filter(None, (", ".join(packages[:-1]), packages[-1])))
    return f"{needed_by} {listed}, which {'is' if len(packages) == 1 else 'are'} not installed. Run: {install}."


def refuse_duplicates(what: str, names: Sequence[str]) -> None:
    """Raise an InputError for a name that is given twice."""
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise InputError(f"{what}: given twice: {', '.join(repeated)}. Runs of the same name cannot be distinguished.")
