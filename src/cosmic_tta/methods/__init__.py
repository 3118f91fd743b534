"""Methods of test-time adaptation: one file or package per paper, and what several of them share in `components`.

Imports `core` alone. Every other package may import it, except `core`, `data`, `encoders` and `features`.
"""

from cosmic_tta.methods.plugins import include
from cosmic_tta.methods.registry import (
    METHODS,
    OBJECTIVES,
    RESOURCES,
    discover,
    make_method,
    plugin_failures,
    register_method,
    register_objective,
    split_name,
)

__all__ = [
    "METHODS",
    "OBJECTIVES",
    "RESOURCES",
    "include",
    "make_method",
    "plugin_failures",
    "register_method",
    "register_objective",
    "split_name",
]

discover()
