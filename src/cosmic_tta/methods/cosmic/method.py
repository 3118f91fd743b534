"""COSMIC (CVPR 2025): caches → class graphs → cliques as hyper-classes → inlier classes → fused prediction.

Huang et al., "COSMIC: Clique-Oriented Semantic Multi-space Integration for Robust CLIP Test-Time Adaptation".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property, partial
from typing import Any, ClassVar, Literal, final

import numpy as np

from cosmic_tta.core.arrays import Array, Ints, class_probabilities, dots
from cosmic_tta.core.errors import ParameterError
from cosmic_tta.core.kernel import COMPILED
from cosmic_tta.core.memory import FeatureMemory
from cosmic_tta.core.method import Method
from cosmic_tta.core.parameters import LARGE, param
from cosmic_tta.core.types import Prediction, Sample, Task
from cosmic_tta.methods.components.prototypes import PrototypeConfig, PrototypeKind
from cosmic_tta.methods.components.view_selection import joint_pseudo_label, select_confident_views
from cosmic_tta.methods.cosmic.branch import BranchConfig, BranchQuery, BranchResult, CssPrediction, score_branch
from cosmic_tta.methods.cosmic.explain import ExplanationData, explain
from cosmic_tta.methods.cosmic.feature_space import CacheCandidate, GraphSpace, Rebuild, SpaceConfig
from cosmic_tta.methods.cosmic.fused_step import AfvStep, CssStep, FusedStepConfig, fused_afv_step, fused_css_step
from cosmic_tta.methods.cosmic.fusion import AuxTrust, fuse
from cosmic_tta.methods.cosmic.graph.cliques import MAX_CLIQUES
from cosmic_tta.methods.cosmic.hyperclasses import Rounding
from cosmic_tta.methods.cosmic.lookahead import BLOCK_SIZE, BlockLookahead, CachedLookups
from cosmic_tta.methods.cosmic.presets import OFFICIAL, PAPER
from cosmic_tta.methods.cosmic.state import CosmicState
from cosmic_tta.methods.registry import register_method


@register_method
@final
@dataclass(frozen=True)
class Cosmic(Method[CosmicState]):
    """Clique-oriented test-time adaptation in two feature spaces.

    CSS, the CLIP space, has a graph of 2K nodes: the K class texts, then the K visual centres of the CLIP cache. AFV,
    the auxiliary space, has K nodes: the visual centres of the auxiliary cache. Parameters that begin with `aux_`
    belong to AFV. Without an auxiliary feature, COSMIC runs on CSS alone.

    There are three presets:

    - `default`: one setting for all data, chosen without labels. It has the paper's scores, graphs of bounded
      degeneracy (which bounds the clique search), caches that age, and a weight of AFV that it must earn.
    - `official`: the authors' published program, step by step, with fixed weights. The authors chose two of the weights
      on test labels.
    - `paper`: the equations as printed. Where they are silent: the plain view is cached; both caches use the same
      pseudo-label and entropy; centres have unit length and no text slot; graphs have no self-loops and are rebuilt in
      every step; a second-order edge needs one common neighbour; affinities are cosines; scores are a softmax at the
      logit scale, masked and not renormalised; a class without samples has no visual node.

    Args:
        confident: The share of the views that is kept.
        stored: What is cached.
        shots: Slots per class in the CLIP cache; `aux_shots` in the auxiliary one.
        centre: How a class's centre is computed: see `PrototypeConfig`.
        graph: What controls the density of the graphs; its value is `threshold`, `degree` or `degeneracy`.
        order: The order of the graph in which cliques are searched.
        rebuild: When graphs are rebuilt.
        ratio: The share of the hyper-classes that select the inliers.
        score: The score of an inlier.
        weights: How much each branch counts in the sum.
        earned: AFV's weight is multiplied by how well it agrees with CLIP on samples that it has not seen.
        aging: Cached samples gain entropy as they get older, so that new samples displace them.

    `cosmic methods` lists every parameter with its range.

    >>> import numpy as np
    >>> from cosmic_tta import Sample, Task
    >>> texts = np.eye(3, 8, dtype=np.float32)
    >>> task = Task(("cat", "dog", "fox"), texts)
    >>> method = Cosmic(shots=4)
    >>> state = method.init(task)
    >>> prediction = method.step(state, Sample(clip=texts[1:2], aux=texts[2]))
    >>> task.class_names[prediction.label], sorted(prediction.parts)
    ('dog', ['afv', 'clip_cache', 'css', 'zero_shot'])
    """

    name: ClassVar[str] = "cosmic"
    year: ClassVar[int | None] = 2025
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {"default": {}, "official": OFFICIAL, "paper": PAPER}

    confident: float = param(0.1, "share of the views kept, those of least entropy", range=(0, 1))
    aging: float = param(
        0.05, "entropy that a cached sample gains while as many samples come as there are slots", range=(0, LARGE)
    )
    stored: Literal["plain", "confident"] = param(
        "plain", "what is cached: the plain view, or the mean of the kept views"
    )
    shots: int = param(8, "slots per class in the CLIP cache", range=(1, LARGE), sizes_state=True)
    aux_shots: int = param(8, "slots per class in the auxiliary cache", range=(1, LARGE), sizes_state=True)
    aux_label: Literal["clip", "joint"] = param(
        "clip", "the pseudo-label of AFV: from the views, or zero-shot + CLIP cache"
    )
    aux_cache: bool = param(False, "report the prediction of the auxiliary cache too; it is not fused")
    centre: PrototypeKind = param("attention", "how the CLIP centre of a class is computed")
    aux_centre: PrototypeKind = param("mean", "how the auxiliary centre of a class is computed")
    attention_beta: float = param(5.5, "sharpness of the attention to slots", range=(0, 40))
    ema_decay: float = param(0.9, "share of the old `ema` centre that is kept", range=(0, 1))
    text_slot: bool = param(False, "the text counts as one more slot of its class's CLIP centre")
    unit_aux_centres: bool = param(True, "auxiliary centres have unit length")
    graph: Literal["threshold", "degree", "degeneracy"] = param("degeneracy", "what controls the graph's density")
    threshold: float = param(0.85, "CSS: similarity above which two nodes are neighbours", range=(-1, 1))
    aux_threshold: float = param(0.2, "AFV: the same", range=(-1, 1))
    growth: float = param(1e-5, "growth of the thresholds per sample, up to 1", range=(0, LARGE))
    degree: float = param(4.0, "CSS: target mean degree", range=(0, LARGE))
    aux_degree: float = param(5.0, "AFV: target mean degree", range=(0, LARGE))
    degeneracy: int = param(4, "CSS: largest core number allowed", range=(0, LARGE))
    aux_degeneracy: int = param(4, "AFV: largest core number allowed", range=(0, LARGE))
    order: Literal[1, 2] = param(2, "order of the graph in which cliques are searched")
    common: int = param(1, "common neighbours that a second-order edge needs", range=(0, LARGE))
    rebuild: Literal["always", "scheduled"] = param("scheduled", "new graphs in every step, or by schedule")
    rebuild_every: int = param(10, "`scheduled`: on changes up to K·shots steps, then every so many", range=(1, LARGE))
    max_cliques: int = param(MAX_CLIQUES, "past so many cliques, a graph has one clique per node", range=(1, LARGE))
    ratio: float = param(0.4, "share of the hyper-classes that select the inliers", range=(0, 1))
    rounding: Rounding = param("ceil", "how that share becomes a number, at least one")
    cosine: bool = param(True, "affinity to a hyper-class is a cosine; else the dot product with its mean")
    score: Literal["softmax", "exponential"] = param("softmax", "score of an inlier node")
    empty_scores: bool = param(False, "a class without samples can be an inlier, as a zero row")
    alpha: float = param(2.0, "`exponential`: factor", range=(0, LARGE))
    beta: float = param(5.0, "`exponential`: sharpness", range=(0, LARGE))
    weights: tuple[float, float, float] = param((1.0, 1.0, 1.5), "weights of zero-shot, CSS, AFV", range=(0, LARGE))
    earned: bool = param(True, "AFV's weight is multiplied by its trust: how well it agrees with CLIP")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.aux_centre == "attention" and not self.unit_aux_centres:
            raise ParameterError(
                "cosmic: aux_centre=attention makes centres of unit length; given unit_aux_centres=false. "
                "Set unit_aux_centres=true."
            )

    def _init(self, task: Task) -> CosmicState:
        css_config, afv_config = self._space_configs(task)
        css = GraphSpace.empty(task.classes, self.shots, task.dim, css_config)
        if task.aux_dim is None:
            return CosmicState(task, seen=0, css=css, afv=None)
        afv = GraphSpace.empty(task.classes, self.aux_shots, task.aux_dim, afv_config)
        return CosmicState(
            task, seen=0, css=css, afv=afv, aux_trust=AuxTrust.empty(task.classes) if self.earned else None
        )

    def _remap_classes(self, state: CosmicState, task: Task, class_map: Ints) -> CosmicState:
        css_config, afv_config = self._space_configs(task)
        afv, trust = state.afv, state.aux_trust
        return CosmicState(
            task,
            seen=state.seen,
            css=state.css.remapped(css_config, class_map),
            afv=None if afv is None else afv.remapped(afv_config, class_map),
            aux_trust=None if trust is None else trust.remapped(class_map),
        )

    def memories(self, state: CosmicState) -> tuple[FeatureMemory, ...]:
        """Return both caches with the cliques of their last graphs."""
        spaces = {"css": state.css, "afv": state.afv}
        return tuple(space.as_memory(name) for name, space in spaces.items() if space is not None)

    def _predict(self, state: CosmicState, sample: Sample, *, learn: bool) -> Prediction:
        prediction = self._fused_step(state, sample) if learn and self._supports_fused_step else None
        if prediction is None:
            lookahead = BlockLookahead(state.task, [sample])
            prediction = self._predict_in_parts(state, sample, lookahead.text_dots, lookahead, learn=learn)
        return prediction

    def _block(self, state: CosmicState, samples: list[Sample]) -> list[Prediction]:
        predictions = []
        for start in range(0, len(samples), BLOCK_SIZE):
            lookahead = BlockLookahead(state.task, samples[start : start + BLOCK_SIZE])
            for sample, text_dots in lookahead:
                predictions.append(self._predict_in_parts(state, sample, text_dots, lookahead, learn=True))
                state.seen += 1
        return predictions

    def _predict_in_parts(
        self, state: CosmicState, sample: Sample, text_dots: Array, lookahead: BlockLookahead, *, learn: bool
    ) -> Prediction:
        """Predict in the order of the paper. `text_dots` [V, K] are the products of the views with the unit texts."""
        task = state.task

        # Zero-shot prediction, confident views, pseudo-label.
        views = select_confident_views(text_dots, task.logit_scale, self.confident, sample.clip)
        zero_shot, label, entropy = views.probabilities[0], views.label, views.entropy

        # CLIP cache, CSS graph, nearest cliques, inlier scores.
        feature = sample.plain if self.stored == "plain" else views.feature
        candidate = CacheCandidate(feature, label, entropy - self._age(state), state.seen) if learn else None
        text_cosine = text_dots[0] * task.text_length
        query = BranchQuery(lookahead.clip, state.seen, task.logit_scale, text_dots[0], text_cosine)
        css = score_branch(state.css, query, candidate, self._css_config)
        assert css.prototype_cosine is not None
        clip_cache = class_probabilities(css.prototype_cosine, task.logit_scale)

        # The same for AFV, and fusion.
        if learn and lookahead.aux is not None and self.aux_label == "joint":
            label, entropy = joint_pseudo_label(zero_shot, clip_cache)
        css_prediction = CssPrediction(zero_shot, clip_cache, css, label, entropy)
        return self._add_afv_and_fuse(state, sample, css_prediction, lookahead.aux, learn=learn)

    def _add_afv_and_fuse(
        self, state: CosmicState, sample: Sample, css: CssPrediction, aux_lookups: CachedLookups | None, *, learn: bool
    ) -> Prediction:
        """Let the auxiliary space learn and score the sample too, and fuse the branches."""
        parts = {"zero_shot": css.zero_shot, "clip_cache": css.clip_cache, "css": css.clip_cache}

        # Auxiliary cache, AFV graph, nearest cliques, inlier scores.
        afv, trust = None, 1.0
        if state.afv is not None and sample.aux is not None and aux_lookups is not None:
            if state.aux_trust is not None:
                trust = state.aux_trust.value()
                if learn:
                    self._learn_trust(state, state.aux_trust, state.afv, css, sample.aux)
            candidate = CacheCandidate(sample.aux, css.label, css.entropy - self._age(state), state.seen)
            query = BranchQuery(aux_lookups, state.seen, state.task.logit_scale)
            afv = score_branch(state.afv, query, candidate if learn else None, self._afv_config)
            if self.aux_cache and afv.slot_products is not None:
                votes = state.afv.memory.vote(afv.slot_products, self.beta)
                parts["aux_cache"] = class_probabilities(votes, self.alpha)
            parts["afv"] = afv.scores

        # Fusion.
        zero_shot_weight, css_weight, afv_weight = self.weights
        weights = zero_shot_weight, css_weight, afv_weight * trust
        fused = fuse(css.zero_shot, css.branch.scores, None if afv is None else afv.scores, weights)
        parts["css"] = fused.css
        return self._prediction(state, sample, fused.scores, parts, fused.label, css.branch, afv)

    def _learn_trust(
        self, state: CosmicState, trust: AuxTrust, afv: GraphSpace, css: CssPrediction, aux: Array
    ) -> None:
        """Compare the branches before the auxiliary cache takes the sample."""
        centres, known = afv.memory.nodes, afv.memory.cache.count > 0
        if centres is None or np.count_nonzero(known) < 2:
            return
        probabilities = np.zeros_like(css.zero_shot)
        probabilities[known] = class_probabilities(dots(centres, aux[None])[0][known], state.task.logit_scale)
        trust.learn(css.zero_shot, css.clip_cache, probabilities)

    def _age(self, state: CosmicState) -> float:
        """Return what is taken off the entropy of a new sample, so that those in the caches look older."""
        return self.aging * state.seen / (self.shots * state.task.classes)

    def _prediction(
        self, state: CosmicState, sample: Sample, scores: Array, parts: dict[str, Array], label: int,
        css: BranchResult | CssStep, afv: BranchResult | AfvStep | None,
    ) -> Prediction:  # fmt: skip
        data = {"css": ExplanationData.of_step(css, state.css.memory.cache, sample.plain, label)}
        if afv is not None and state.afv is not None and sample.aux is not None:
            data["afv"] = ExplanationData.of_step(afv, state.afv.memory.cache, sample.aux, label)
        return Prediction(scores, parts, partial(explain, state.task.class_names, label, self.attention_beta, data))

    def _fused_step(self, state: CosmicState, sample: Sample) -> Prediction | None:
        """Learn and predict in one compiled call per space.

        Returns:
            None if the step builds no new graph or the CLIP cache does not take the sample; then nothing has changed.
        """
        task, afv, aux = state.task, state.afv, sample.aux
        if self._css_config.rebuild_rule(task.classes, state.seen) is Rebuild.NEVER:
            return None
        capsule = self._fused_step_config.capsule(task.classes, state.seen)
        css_step = fused_css_step(state.css, task, sample, state.seen, capsule)
        if css_step is None:
            return None
        afv_step = None
        afv_rebuild = self._afv_config.rebuild_rule(task.classes, state.seen)
        if afv is not None and aux is not None and self.aux_cache and afv_rebuild is not Rebuild.NEVER:
            afv_step = fused_afv_step(afv, aux, state.seen, capsule, css_step)
        if afv_step is None:
            css = CssPrediction(
                css_step.zero_shot, css_step.clip_cache, css_step.branch, css_step.label, css_step.entropy
            )
            return self._add_afv_and_fuse(
                state, sample, css, None if aux is None else CachedLookups(aux[None]), learn=True
            )
        return self._prediction(state, sample, afv_step.scores, afv_step.parts, afv_step.label, css_step, afv_step)

    @cached_property
    def _supports_fused_step(self) -> bool:
        """Whether the kernel has fused steps for these parameters."""
        prototypes = self.centre == "attention" and self.text_slot and self.aux_centre == "mean"
        dot_products = not (self.unit_aux_centres or self.cosine)
        fixed = not self.earned and not self.aging and self.score == "exponential"
        return COMPILED is not None and prototypes and dot_products and fixed and self.empty_scores

    @cached_property
    def _fused_step_config(self) -> FusedStepConfig:
        plain, joint = self.stored == "plain", self.aux_label == "joint"
        return FusedStepConfig(
            self.confident, plain, joint, self.attention_beta, self.weights, self._css_config, self._afv_config
        )

    def _space_configs(self, task: Task) -> tuple[SpaceConfig, SpaceConfig]:
        """Return what is fixed for CSS and for AFV."""
        text = task.unit_text if self.text_slot else None
        css = PrototypeConfig(self.centre, self.attention_beta, self.ema_decay, text=text)
        afv = PrototypeConfig(self.aux_centre, self.attention_beta, self.ema_decay, unit=self.unit_aux_centres)
        return SpaceConfig(css, task.text, self.cosine), SpaceConfig(afv, None, self.cosine)

    @cached_property
    def _css_config(self) -> BranchConfig:
        return BranchConfig(**self._branch_parameters)

    @cached_property
    def _afv_config(self) -> BranchConfig:
        own = ("shots", "threshold", "degree", "degeneracy")
        parameters = self._branch_parameters | {name: getattr(self, f"aux_{name}") for name in own}
        return BranchConfig(**parameters, slot_products=self.aux_cache)

    @property
    def _branch_parameters(self) -> dict[str, Any]:
        """The parameters that a branch has under the same name."""
        names = {part.name for part in fields(self)} & {part.name for part in fields(BranchConfig)}
        return {name: getattr(self, name) for name in names} | {"common": self.common if self.order == 2 else None}
