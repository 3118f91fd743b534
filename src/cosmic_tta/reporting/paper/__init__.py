"""The experiments of the COSMIC paper by name, with the published numbers beside ours.

Imports everything below `reporting`, and its charts and tables; the command line imports it. An experiment's module
is imported when it runs.

>>> from cosmic_tta.reporting.paper import EXPERIMENTS
>>> EXPERIMENTS["graph-ablation"].summary
'CLIP, CSS and AFV in all combinations'
"""

from cosmic_tta.reporting.paper.context import ExperimentContext
from cosmic_tta.reporting.paper.registry import EXPERIMENTS, Experiment, find_experiment, run_experiment

__all__ = ["EXPERIMENTS", "Experiment", "ExperimentContext", "find_experiment", "run_experiment"]
