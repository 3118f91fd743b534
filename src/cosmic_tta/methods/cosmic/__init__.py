"""COSMIC: class caches, class graphs, hyper-classes and the fused prediction of two feature spaces.

`method.py` reads in the order of the paper; `branch.py` has the steps that both spaces share; `graph/` has the graphs.

Imports `core` and `methods.components`. `methods.registry` imports it.
"""

from cosmic_tta.methods.cosmic.method import Cosmic

__all__ = ["Cosmic"]
