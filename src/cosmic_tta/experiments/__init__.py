"""The experiments of the COSMIC paper by name: each a function from a context to an outcome."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import NamedTuple

from cosmic_tta.charts import Outcome
from cosmic_tta.errors import InputError, unknown_name
from cosmic_tta.experiments.context import Context

__all__ = ["EXPERIMENTS", "Context", "Experiment", "find_experiment", "run_experiment"]


class Experiment(NamedTuple):
    """Where an experiment is, what it shows, and what it is in the paper."""

    place: str  # module:function, imported when it is run
    summary: str
    paper: str

    def load(self) -> Callable[[Context], Outcome]:
        """Import its function."""
        module, _, name = self.place.partition(":")
        try:
            found: Callable[[Context], Outcome] = getattr(import_module(f"{__name__}.{module}"), name)
        except ModuleNotFoundError as error:
            if error.name and error.name.startswith(__name__):
                raise InputError(f"the experiment {self.place!r} is not part of this version.") from error
            raise
        return found


EXPERIMENTS: Mapping[str, Experiment] = {
    "table-ood": Experiment("benchmarks:table_ood", "all methods on ImageNet and its four variants", "Table 1"),
    "table-cd": Experiment("benchmarks:table_cd", "all methods on ten data sets of other domains", "Table 2"),
    "efficiency": Experiment("costs:efficiency", "views, time per image, accuracy and gain", "Table 3"),
    "graph-ablation": Experiment("ablations:graph_ablation", "CLIP, CSS and AFV in all combinations", "Table 4"),
    "aux-encoder": Experiment("ablations:aux_encoder", "auxiliary features: given, none, saying nothing", "Table 5"),
    "fusion-surface": Experiment("surface:fusion_surface", "accuracy over β2 and β3: an oracle picture", "Figure 5"),
    "components": Experiment("ablations:components", "CLIP, + dual graphs without mask, + hyper-classes", "Figure 6a"),
    "ratio": Experiment("ablations:ratio", "the share r of hyper-classes that select inliers", "Figure 6b"),
    "cache-size": Experiment("ablations:cache_size", "slots a class in the auxiliary cache", "Table 6"),
    "views": Experiment("ablations:views", "views of an image", "Table 7"),
    "afv-centre": Experiment("ablations:afv_centre", "auxiliary centres: mean, attention, EMA", "Table 8"),
    "overhead": Experiment("costs:overhead", "time and storage of every stage", "Table 9"),
    "affinity": Experiment("affinity:affinity", "CLIP against auxiliary similarity of confusable classes", "Figure 2a"),
    "clusters": Experiment("clusters:clusters", "clique clusters against Gaussian ones", "Figure 2b"),
    "tsne-classes": Experiment("tsne:classes", "texts and both kinds of hyper-classes around a query", "Figure 7"),
    "tsne-caches": Experiment("tsne:caches", "both caches after 1,000 steps", "Figure 8"),
    "attention": Experiment("attention:attention", "what both encoders look at, with their top five", "Figure 4"),
    "queried": Experiment("queried:queried", "classes found by the cache, CSS and AFV", "Figure 9"),
}


def find_experiment(name: str) -> Experiment:
    """Return an experiment by its name."""
    if name not in EXPERIMENTS:
        raise unknown_name("experiment", name, EXPERIMENTS)
    return EXPERIMENTS[name]


def run_experiment(name: str, context: Context) -> Outcome:
    """Run one of the paper's experiments."""
    return find_experiment(name).load()(context)
