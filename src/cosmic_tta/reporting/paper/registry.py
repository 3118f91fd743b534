"""The experiments of the COSMIC paper by name: each is a function from a context to a result set."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import NamedTuple

from cosmic_tta.core.errors import unknown_name
from cosmic_tta.reporting.chart_data import ResultSet
from cosmic_tta.reporting.paper.context import ExperimentContext


class Experiment(NamedTuple):
    """One experiment of the paper.

    Args:
        function: `module:function` within this package; imported when the experiment runs.
        summary: What it shows.
        reference: Its table or figure in the paper.

    Examples:
        >>> Experiment("ablations:ratio", "the share r of hyper-classes", "Figure 6b").load().__name__
        'ratio'
    """

    function: str
    summary: str
    reference: str

    def load(self) -> Callable[[ExperimentContext], ResultSet]:
        """Import the function."""
        module, _, name = self.function.partition(":")
        function: Callable[[ExperimentContext], ResultSet] = getattr(
            import_module(f"cosmic_tta.reporting.paper.{module}"), name
        )
        return function


EXPERIMENTS: Mapping[str, Experiment] = {
    "table-ood": Experiment("benchmarks:table_ood", "all methods on ImageNet and its four variants", "Table 1"),
    "table-cd": Experiment("benchmarks:table_cd", "all methods on ten data sets of other domains", "Table 2"),
    "efficiency": Experiment("costs:efficiency", "views, time per image, accuracy and gain", "Table 3"),
    "graph-ablation": Experiment("ablations:graph_ablation", "CLIP, CSS and AFV in all combinations", "Table 4"),
    "aux-encoder": Experiment("ablations:aux_encoder", "auxiliary features: given, none, uninformative", "Table 5"),
    "fusion-surface": Experiment(
        "fusion_surface:fusion_surface", "accuracy over the fusion weights β2 and β3 (oracle)", "Figure 5"
    ),
    "components": Experiment(
        "ablations:components", "CLIP, + dual graphs without mask, + hyper-class mask", "Figure 6a"
    ),
    "ratio": Experiment("ablations:ratio", "the share r of hyper-classes that select inliers", "Figure 6b"),
    "cache-size": Experiment("ablations:cache_size", "slots per class in the auxiliary cache", "Table 6"),
    "views": Experiment("ablations:views", "views per image", "Table 7"),
    "afv-centre": Experiment("ablations:afv_centre", "auxiliary class centres: mean, attention, EMA", "Table 8"),
    "overhead": Experiment("costs:overhead", "time and storage of every stage", "Table 9"),
    "affinity": Experiment("affinity:affinity", "CLIP and auxiliary similarity of confusable classes", "Figure 2a"),
    "clusters": Experiment("clusters:clusters", "clique clusters and Gaussian clusters", "Figure 2b"),
    "tsne-classes": Experiment(
        "tsne:tsne_classes", "texts and hyper-classes of both spaces around a query", "Figure 7"
    ),
    "tsne-caches": Experiment("tsne:tsne_caches", "both caches after 1,000 steps", "Figure 8"),
    "attention": Experiment("attention:attention", "saliency maps of both encoders, with their top five", "Figure 4"),
    "retrieved-classes": Experiment(
        "retrieved_classes:retrieved_classes", "classes that the cache, CSS and AFV retrieve", "Figure 9"
    ),
}


def find_experiment(name: str) -> Experiment:
    """Return an experiment by its name.

    Args:
        name: A key of `EXPERIMENTS`.

    Returns:
        The experiment.

    Raises:
        UnknownNameError: No experiment has this name.

    Examples:
        >>> find_experiment("graph-ablation").reference
        'Table 4'
    """
    if name not in EXPERIMENTS:
        raise unknown_name("experiment", name, EXPERIMENTS)
    return EXPERIMENTS[name]


def run_experiment(name: str, context: ExperimentContext) -> ResultSet:
    """Run an experiment of the paper.

    Args:
        name: A key of `EXPERIMENTS`.
        context: Packs, seeds and other settings.

    Returns:
        Its tables and charts.

    Raises:
        UnknownNameError: No experiment has this name.

    Examples:
        >>> from cosmic_tta.features.synthetic import superclass_pack
        >>> context = ExperimentContext((superclass_pack(0, images=20, dim=16),), seeds=(0,))
        >>> run_experiment("ratio", context).title
        'Share of hyper-classes r (Figure 6b)'
    """
    return find_experiment(name).load()(context)
