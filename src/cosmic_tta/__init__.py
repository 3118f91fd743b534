"""Streaming test-time adaptation of CLIP-like models, with no labels and no training."""

from typing import TYPE_CHECKING, Any

from cosmic_tta.core import Method, Prediction, Sample, State, Support, Task
from cosmic_tta.errors import CosmicError
from cosmic_tta.explanation import Explanation
from cosmic_tta.methods import METHODS, make_method
from cosmic_tta.methods.bayes_means import BayesMeans
from cosmic_tta.methods.cocoop import CoCoop
from cosmic_tta.methods.coop import Coop
from cosmic_tta.methods.cosmic import Cosmic
from cosmic_tta.methods.difftpt import DiffTpt
from cosmic_tta.methods.dmn import Dmn
from cosmic_tta.methods.tda import Tda
from cosmic_tta.methods.tip_adapter import TipAdapter
from cosmic_tta.methods.tip_adapter_f import TipAdapterF
from cosmic_tta.methods.tpt import Tpt
from cosmic_tta.methods.zero_shot import ZeroShot

if TYPE_CHECKING:
    from cosmic_tta.classifier import Classifier

__version__ = "0.1.0"
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
    "make_method",
]


def __getattr__(name: str) -> Any:
    """Import Classifier when it is asked for: the engine itself needs NumPy alone."""
    if name == "Classifier":
        from cosmic_tta.classifier import Classifier

        return Classifier
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
