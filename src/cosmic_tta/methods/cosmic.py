"""COSMIC (CVPR 2025): caches → class graphs → cliques as hyper-classes → inlier classes → fused prediction.

Huang et al., "COSMIC: Clique-Oriented Semantic Multi-space Integration for Robust CLIP Test-Time Adaptation".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, ClassVar, Literal, NamedTuple, final

import numpy as np

from cosmic_tta.account import Account, Branch, explain
from cosmic_tta.advance import Course, advance_afv, advance_css, can_advance, course
from cosmic_tta.ahead import LOOK_AHEAD, Ahead, Queries
from cosmic_tta.cliques import MAX_CLIQUES, cliques_of
from cosmic_tta.core import Method, Prediction, Sample, State, Task
from cosmic_tta.errors import ParameterError, SnapshotError
from cosmic_tta.fusion import ClassSums, Referee, Trust, combine, cosine_without
from cosmic_tta.graph import Density, grown_threshold
from cosmic_tta.hyperclass import CentreKind, Centring, HyperClasses, Nearest, Rounding, Score
from cosmic_tta.ops import Array, Bools, Fused, Ints, as_float32, class_probabilities, confident_look, fuse, joint_look
from cosmic_tta.parameters import LARGE, param
from cosmic_tta.presets import OFFICIAL, PAPER
from cosmic_tta.space import Answer, Nodes, Offer, Space


@dataclass
class CosmicState(State):
    """Both spaces; the auxiliary one is None in a stream without auxiliary features. Fixed weights need no trust."""

    css: Space
    afv: Space | None
    trust: Trust | None = None  # in the branches
    aux_sums: ClassSums | None = None  # of the auxiliary cache

    def validate(self) -> None:
        """Refuse hyper-classes of nodes that the graphs do not have."""
        super().validate()
        if self.trust is not None:
            self.trust.validate()
        for space, nodes in ((self.css, 2 * self.task.classes), (self.afv, self.task.classes)):
            built = space is not None and (self.seen > 0 or len(space.hyper) > 0)
            if built and not np.array_equal(np.unique(space.hyper.nodes), np.arange(nodes)):  # type: ignore[union-attr]
                raise SnapshotError("saved hyper-classes do not cover their graph; the file is damaged.")


class Rule(NamedTuple):
    """The parameters that one space has for itself."""

    shots: int
    threshold: float
    degree: float
    degeneracy: int


@final
@dataclass(frozen=True)
class Cosmic(Method[CosmicState]):
    """Clique-oriented adaptation in two feature spaces.

    CSS, the CLIP space, has 2K nodes: the K texts, then the K visual centres. AFV, the auxiliary space,
    has K nodes: the visual centres. Parameters that begin with `aux_` are AFV's; without an auxiliary
    feature COSMIC runs on CSS alone.

    Presets: `official` is the authors' published program, step by step, with fixed weights (the authors
    picked two of them on test labels). `paper` is the equations as printed; what they leave open is read
    so: the plain view is stored, both caches admit by the same pseudo-label and entropy, centres have no
    text slot and unit length, a graph has no self-loops and is rebuilt in every step, an edge of second
    order has at least one common neighbour, the affinity to a hyper-class is a true cosine, scores are a
    softmax at the logit scale, then masked and not renormalised, and a class without samples has no
    visual node. `default` is ours, one setting for all data, no label ever seen: the paper's scores, which put
    the branches on a common scale, over graphs of bounded degeneracy (so the clique search is bounded too)
    that are rebuilt when a cache changes, a milder mask, and weights that each branch earns (`fusion`).
    """

    name: ClassVar[str] = "cosmic"
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {"default": {}, "official": OFFICIAL, "paper": PAPER}

    confident: float = param(0.1, "share of the views kept, those of least entropy", range=(0, 1))
    stored: Literal["plain", "confident"] = param("plain", "what is cached: the plain view, or the mean of the kept")
    shots: int = param(8, "slots a class in the CLIP cache", range=(1, LARGE))
    aux_shots: int = param(8, "slots a class in the auxiliary cache", range=(1, LARGE))
    aux_label: Literal["clip", "joint"] = param("clip", "who labels for AFV: the views, or zero-shot + CLIP cache")
    aux_cache: bool = param(False, "report the auxiliary cache's own prediction too; it takes no part in the sum")
    centre: CentreKind = param("attention", "how a class's CLIP centre is made")
    aux_centre: CentreKind = param("mean", "how a class's auxiliary centre is made")
    attention_beta: float = param(5.5, "sharpness of the attention to slots", range=(0, 40))
    ema_decay: float = param(0.9, "how much of an `ema` centre stays", range=(0, 1))
    text_slot: bool = param(False, "the text takes part in its class's CLIP centre as one slot more")
    unit_aux_centres: bool = param(True, "auxiliary centres have unit length")
    graph: Literal["threshold", "degree", "degeneracy"] = param("degeneracy", "what controls the graph's density")
    threshold: float = param(0.85, "CSS: similarity above which two nodes are neighbours", range=(-1, 1))
    aux_threshold: float = param(0.2, "AFV: the same", range=(-1, 1))
    growth: float = param(1e-5, "how much the thresholds grow with each sample, up to 1", range=(0, LARGE))
    degree: float = param(4.0, "CSS: target mean degree", range=(0, LARGE))
    aux_degree: float = param(5.0, "AFV: target mean degree", range=(0, LARGE))
    degeneracy: int = param(4, "CSS: largest core number allowed", range=(0, LARGE))
    aux_degeneracy: int = param(4, "AFV: largest core number allowed", range=(0, LARGE))
    order: Literal[1, 2] = param(2, "cliques are sought in the first- or the second-order graph")
    common: int = param(1, "common neighbours that an edge of second order needs", range=(0, LARGE))
    rebuild: Literal["always", "scheduled"] = param("scheduled", "graphs in every step, or on changes, then seldom")
    rebuild_every: int = param(100, "`scheduled`: steps between graphs after the first K·shots", range=(1, LARGE))
    max_cliques: int = param(MAX_CLIQUES, "past this many cliques a graph falls back to one a node", range=(1, LARGE))
    ratio: float = param(0.4, "share of the hyper-classes that select the inliers", range=(0, 1))
    rounding: Rounding = param("ceil", "how that share becomes a number; never below one")
    cosine: bool = param(True, "affinity to a hyper-class is a cosine; else the dot product with its mean")
    score: Literal["softmax", "exponential"] = param("softmax", "what an inlier node scores")
    empty_scores: bool = param(False, "a class without samples can score as a zero row")
    alpha: float = param(2.0, "`exponential`: factor", range=(0, LARGE))
    beta: float = param(5.0, "`exponential`: sharpness", range=(0, LARGE))
    fusion: Literal["fixed", "reliable"] = param("reliable", "how branches add up: fixed weights, or what each earns")
    weights: tuple[float, float, float] = param((1.0, 1.0, 1.0), "`fixed`: of zero-shot, CSS, AFV", range=(0, LARGE))

    @cached_property
    def _css_rule(self) -> Rule:
        return Rule(self.shots, self.threshold, self.degree, self.degeneracy)

    @cached_property
    def _afv_rule(self) -> Rule:
        return Rule(self.aux_shots, self.aux_threshold, self.aux_degree, self.aux_degeneracy)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.aux_centre == "attention" and not self.unit_aux_centres:
            raise ParameterError("cosmic: aux_centre=attention has centres of unit length; set unit_aux_centres=true.")

    def _init(self, task: Task) -> CosmicState:
        text = task.unit_text if self.text_slot else None
        centring = Centring(self.centre, self.attention_beta, self.ema_decay, text=text)
        css = Space.empty(task.classes, self.shots, task.dim, centring)
        css.prepare(task.text, self.cosine)
        trust = Trust.empty(task.classes) if self.fusion == "reliable" else None
        if task.aux_dim is None:
            return CosmicState(task, seen=0, css=css, afv=None, trust=trust)
        centring = Centring(self.aux_centre, self.attention_beta, self.ema_decay, unit=self.unit_aux_centres)
        afv = Space.empty(task.classes, self.aux_shots, task.aux_dim, centring)
        afv.prepare(None, self.cosine)
        sums = None if trust is None else ClassSums.empty(task.classes, task.aux_dim)
        return CosmicState(task, seen=0, css=css, afv=afv, trust=trust, aux_sums=sums)

    def _carry(self, state: CosmicState, task: Task, places: Ints) -> CosmicState:
        carried = self._init(task)
        carried.seen = state.seen
        carried.css = state.css.carried(carried.css.rule, places, task.text, state.task.text, self.cosine)
        if state.afv is not None and carried.afv is not None:
            carried.afv = state.afv.carried(carried.afv.rule, places, None, None, self.cosine)
        carried.trust = None if state.trust is None else state.trust.carried(places)
        carried.aux_sums = None if state.aux_sums is None else state.aux_sums.carried(places)
        return carried

    def _predict(self, state: CosmicState, sample: Sample, *, learn: bool) -> Prediction:
        answer = self._advance(state, sample) if learn and self._at_once else None
        if answer is not None:
            return answer
        ahead = Ahead(state.task, [sample])
        return self._score(state, sample, ahead.products, ahead, learn)

    def _block(self, state: CosmicState, samples: list[Sample]) -> list[Prediction]:
        answers = []
        for start in range(0, len(samples), LOOK_AHEAD):
            ahead = Ahead(state.task, samples[start : start + LOOK_AHEAD])
            for sample, text_dots in ahead:
                answers.append(self._score(state, sample, text_dots, ahead, learn=True))
                state.seen += 1
        return answers

    def _score(self, state: CosmicState, sample: Sample, text_dots: Array, ahead: Ahead, learn: bool) -> Prediction:
        # Zero-shot, the confident views, the pseudo-label.
        look = confident_look(text_dots, state.task.logit_scale, self.confident, sample.clip)
        zero_shot, label, surprise = look.probabilities[0], look.label, look.entropy

        # CSS: the sample enters the CLIP cache; texts and visual centres answer.
        feature = sample.plain if self.stored == "plain" else look.feature
        offer = Offer(feature, label, surprise, state.seen)
        css, clip_cache = self._css(state, offer, text_dots[0], ahead.clip, learn)

        # AFV: the same with the auxiliary feature, without texts.
        if learn and ahead.aux is not None and self.aux_label == "joint":
            label, surprise = joint_look(zero_shot, clip_cache)
        return self._join(state, sample, zero_shot, clip_cache, css, label, surprise, ahead.aux, learn)

    def _join(
        self, state: CosmicState, sample: Sample, zero_shot: Array, clip_cache: Array, css: Branch,
        label: int, surprise: float, queries: Queries | None, learn: bool,
    ) -> Prediction:  # fmt: skip
        """Let AFV answer too, with the pseudo-label that the CLIP space has for it, and add up the branches."""
        parts = {"zero_shot": zero_shot, "clip_cache": clip_cache, "css": clip_cache}
        afv = None
        if state.afv is not None and queries is not None and sample.aux is not None:
            offer = Offer(sample.aux, label, surprise, state.seen)
            afv, aux_cache = self._afv(state, state.afv, offer, queries, learn)
            if aux_cache is not None:
                parts["aux_cache"] = aux_cache
            parts["afv"] = afv.scores
        if state.trust is None:
            fused = fuse(zero_shot, css.scores, None if afv is None else afv.scores, self.weights)
        else:
            fused = self._earn(state, state.trust, sample, zero_shot, css, learn)
        parts["css"] = fused.css
        accounts = {"css": css.account(state.css, sample.plain, fused.label)}
        if afv is not None and state.afv is not None and sample.aux is not None:
            accounts["afv"] = afv.account(state.afv, sample.aux, fused.label)
        return self._told(state.task, fused.scores, parts, fused.label, accounts)

    def _earn(
        self, state: CosmicState, trust: Trust, sample: Sample, zero_shot: Array, css: Branch, learn: bool
    ) -> Fused:
        """Fuse the branches by what they have earned; an image in a cache does not speak for itself."""
        space, classes, evidence = state.css, len(zero_shot), None
        cache, cosine = space.memory.cache, css.cosine
        assert cosine is not None  # because no step with this fusion is made in compiled calls
        count, inside = cache.count, cache.holder(state.seen) if learn else None
        if inside is not None:
            other = cosine_without(cache, space.rule, inside, state.seen, sample.plain)
            count, cosine = count.copy(), cosine.copy()
            count[inside] -= 1
            cosine[inside] = 0 if other is None else other
        known = count > 0 if space.rule.text is None else np.ones(classes, bool)
        full = as_float32(count / cache.shots)
        referee = Referee(cosine, known, full, css.nearest.inliers[classes:])
        if state.afv is not None and state.aux_sums is not None and sample.aux is not None:
            cache = state.afv.memory.cache
            inside = cache.holder(state.seen) if learn else None
            if inside is not None:
                state.aux_sums.follow(cache, inside)
            evidence = state.aux_sums.evidence(sample.aux, cache, inside)
        if learn:
            trust.learn(zero_shot, evidence, referee)
        scores = combine(zero_shot, evidence, referee, trust.weights(), state.task.logit_scale)
        return Fused((css.scores[:classes] + css.scores[classes:]) / np.float32(2), scores, int(scores.argmax()))

    def _told(
        self, task: Task, scores: Array, parts: dict[str, Array], answer: int, accounts: dict[str, Account]
    ) -> Prediction:
        return Prediction(scores, parts, partial(explain, task, answer, self.attention_beta, accounts))

    def _css(
        self, state: CosmicState, offer: Offer, text_dots: Array, queries: Queries, learn: bool
    ) -> tuple[Branch, Array]:
        """Let the CLIP space take a sample, and return its answer and that of its cache alone, [K]."""
        task, space, rule = state.task, state.css, self._css_rule
        due = self._due(state, rule)
        if learn:
            took = space.learn(queries, offer, due)
            due = took if due is None else due
        answer = space.answer(queries, text_dots)
        cosine = np.concatenate([text_dots * task.text_length, answer.cosine])  # [2K]
        there = None
        if not (self.empty_scores or self.text_slot):
            there = np.concatenate([np.ones(task.classes, bool), space.memory.cache.count > 0])
        branch = self._branch(state, space, rule, task.text, answer, cosine, there, queries, due, learn)
        return branch, class_probabilities(answer.cosine, task.logit_scale)

    def _afv(
        self, state: CosmicState, space: Space, offer: Offer, queries: Queries, learn: bool
    ) -> tuple[Branch, Array | None]:
        """Let the auxiliary space take a sample, and return its answer and, if asked for, that of its cache alone."""
        rule = self._afv_rule
        due = self._due(state, rule)
        if learn:
            took = space.learn(queries, offer, due)
            due = took if due is None else due
        answer, aux_cache = space.answer(queries, None, slots=self.aux_cache), None
        if self.aux_cache and answer.near is not None:
            aux_cache = class_probabilities(space.memory.vote(answer.near, self.beta), self.alpha)
        there = None
        if not self.empty_scores or not state.seen:
            there = space.memory.cache.count > 0
            there = None if self.empty_scores and there.any() else there
        return self._branch(state, space, rule, None, answer, answer.cosine, there, queries, due, learn), aux_cache

    def _branch(
        self, state: CosmicState, space: Space, rule: Rule, texts: Array | None, answer: Answer, cosine: Array,
        there: Bools | None, queries: Queries, due: bool | None, learn: bool,
    ) -> Branch:  # fmt: skip
        """Score a space's nodes for the query, those that are `there`; with `learn`, keep the graph if it is `due`."""
        if there is not None and not there.any():  # a peek before the first sample
            nothing = np.zeros(len(cosine), np.float32)
            return Branch(nothing, space.hyper, Nearest(nothing[:0], 0, there, nothing), answer.near, answer.cosine)
        if due if learn else (self.rebuild == "always" or not len(space.hyper)):
            nodes = space.current(texts, self.cosine, answer.attention)
            hyper, then = self._hyper_classes(nodes, there, rule, state.seen), cosine
            if learn:
                space.settle(queries, hyper, nodes, answer.attention)
            space.nodes = nodes
        else:
            hyper, then = space.hyper, space.as_it_was(queries, cosine, learn)
        score = Score(cosine, self.alpha, self.beta) if self.score == "exponential" else None
        nearest = hyper.nearest(then, self.ratio, self.rounding, score)
        scores = nearest.scores
        if scores is None and there is None:
            scores = class_probabilities(cosine, state.task.logit_scale) * nearest.inliers
        elif scores is None:
            scores = np.zeros(len(cosine), np.float32)
            scores[there] = class_probabilities(cosine[there], state.task.logit_scale)
            scores *= nearest.inliers
        if there is not None:
            nearest, scores = nearest._replace(inliers=nearest.inliers & there), scores * there
        return Branch(scores, hyper, nearest, answer.near, answer.cosine)

    def _due(self, state: CosmicState, rule: Rule) -> bool | None:
        """Whether it is time for a new graph; None: if the cache changes."""
        if self.rebuild == "always":
            return True
        if state.seen <= state.task.classes * rule.shots:
            return None
        return state.seen % self.rebuild_every == 0

    def _hyper_classes(self, nodes: Nodes, there: Bools | None, rule: Rule, seen: int) -> HyperClasses:
        """Build the graph of the nodes that are there; one that is not stays alone."""
        present = None if there is None or there.all() else there
        common = self.common if self.order == 2 else None
        cliques = cliques_of(nodes.similarity, self._density(rule, seen), present, common, self.max_cliques)
        return HyperClasses.of(cliques, nodes.rows, cosine=self.cosine)

    def _density(self, rule: Rule, seen: int) -> Density:
        if self.graph == "threshold":
            return Density("threshold", grown_threshold(rule.threshold, self.growth, seen))
        return Density(self.graph, rule.degree if self.graph == "degree" else rule.degeneracy)

    @cached_property
    def _at_once(self) -> bool:
        return can_advance(self)

    def _advance(self, state: CosmicState, sample: Sample) -> Prediction | None:
        """Make a step in one compiled call a space; None if there is no new graph or the CLIP space takes no sample."""
        task, afv, aux = state.task, state.afv, sample.aux
        if self._due(state, self._css_rule) is False:
            return None
        way = self._course(task.classes, state.seen)
        done = advance_css(state.css, task, sample, state.seen, way)
        if done is None:
            return None
        fused = None
        if afv is not None and aux is not None and self.aux_cache and self._due(state, self._afv_rule) is not False:
            fused = advance_afv(afv, aux, state.seen, way, done)
        if fused is None or afv is None:
            css = Branch(done.css_nodes, done.hyper, Nearest.read(*done.nearest), done.near)
            queries = None if aux is None else Queries(aux[None])
            return self._join(
                state, sample, done.zero_shot, done.clip_cache, css, done.label, done.entropy, queries, learn=True
            )
        scores, parts, accounts = done.told(state.css, afv, fused)
        return self._told(task, scores, parts, fused.label, accounts)

    def _course(self, classes: int, seen: int) -> Course:
        known = self._courses.get(classes)
        if known is None:
            known = course(self, classes, self._density(self._css_rule, seen), self._density(self._afv_rule, seen))
            if self.graph != "threshold":  # which grows
                self._courses[classes] = known
        return known

    @cached_property
    def _courses(self) -> dict[int, Course]:
        return {}
