"""Types, methods, parameters, arrays, files and errors that every other package uses.

Imports NumPy alone. Every package may import it.
"""

from cosmic_tta.core.errors import CosmicError, InputError, ParameterError, SnapshotError, UnknownNameError
from cosmic_tta.core.explanation import Explanation
from cosmic_tta.core.files import write_atomic
from cosmic_tta.core.memory import FeatureMemory
from cosmic_tta.core.method import Method
from cosmic_tta.core.parameters import param
from cosmic_tta.core.types import Prediction, PromptTower, Sample, State, Support, Task

__all__ = [
    "CosmicError",
    "Explanation",
    "FeatureMemory",
    "InputError",
    "Method",
    "ParameterError",
    "Prediction",
    "PromptTower",
    "Sample",
    "SnapshotError",
    "State",
    "Support",
    "Task",
    "UnknownNameError",
    "param",
    "write_atomic",
]
