"""Streaming test-time adaptation of CLIP-like models, with no labels and no training.

The names below are the public interface. Importing them needs NumPy alone.
"""

from typing import TYPE_CHECKING, Any

from cosmic_tta.core.errors import CosmicError
from cosmic_tta.core.explanation import Explanation
from cosmic_tta.core.memory import FeatureMemory
from cosmic_tta.core.method import Method
from cosmic_tta.core.parameters import param
from cosmic_tta.core.types import Prediction, Sample, State, Support, Task
from cosmic_tta.core.version import __version__
from cosmic_tta.methods import METHODS, make_method, register_method
from cosmic_tta.methods.bayes_means.method import BayesMeans
from cosmic_tta.methods.cosmic.method import Cosmic
from cosmic_tta.methods.dmn import Dmn
from cosmic_tta.methods.prompt_tuning.cocoop import CoCoop
from cosmic_tta.methods.prompt_tuning.coop import Coop
from cosmic_tta.methods.prompt_tuning.difftpt import DiffTpt
from cosmic_tta.methods.prompt_tuning.tpt import Tpt
from cosmic_tta.methods.tda import Tda
from cosmic_tta.methods.tip_adapter import TipAdapter
from cosmic_tta.methods.tip_adapter_f import TipAdapterF
from cosmic_tta.methods.zero_shot import ZeroShot

if TYPE_CHECKING:
    from cosmic_tta.classifier import Classifier

__all__ = [
    "METHODS",
    "BayesMeans",
    "Classifier",
    "CoCoop",
    "Coop",
    "Cosmic",
    "CosmicError",
    "DiffTpt",
    "Dmn",
    "Explanation",
    "FeatureMemory",
    "Method",
    "Prediction",
    "Sample",
    "State",
    "Support",
    "Task",
    "Tda",
    "TipAdapter",
    "TipAdapterF",
    "Tpt",
    "ZeroShot",
    "__version__",
    "make_method",
    "param",
    "register_method",
]


def __getattr__(name: str) -> Any:
    """Import Classifier on first use, because it needs more than NumPy."""
    if name == "Classifier":
        from cosmic_tta.classifier import Classifier

        return Classifier
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
