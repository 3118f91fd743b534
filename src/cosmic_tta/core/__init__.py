"""Types, methods, parameters, arrays, files and errors that every other package uses.

Imports NumPy alone. Every package may import it.
"""

from cosmic_tta.core.errors import (
    CosmicError,
    DatasetError,
    EncoderError,
    ImageError,
    InputError,
    LockedError,
    PackError,
    ParameterError,
    SessionDamagedError,
    SessionError,
    SessionFormatError,
    SnapshotError,
    StorageError,
    UnknownNameError,
    UnreadableImageError,
)
from cosmic_tta.core.explanation import Explanation
from cosmic_tta.core.files import write_atomic
from cosmic_tta.core.memory import FeatureMemory
from cosmic_tta.core.method import Method
from cosmic_tta.core.parameters import param
from cosmic_tta.core.types import Prediction, PromptTower, Sample, State, Support, Task

__all__ = [
    "CosmicError",
    "DatasetError",
    "EncoderError",
    "Explanation",
    "FeatureMemory",
    "ImageError",
    "InputError",
    "LockedError",
    "Method",
    "PackError",
    "ParameterError",
    "Prediction",
    "PromptTower",
    "Sample",
    "SessionDamagedError",
    "SessionError",
    "SessionFormatError",
    "SnapshotError",
    "State",
    "StorageError",
    "Support",
    "Task",
    "UnknownNameError",
    "UnreadableImageError",
    "param",
    "write_atomic",
]
