from __future__ import annotations

import numpy as np

from cosmic_tta import Dmn, make_method
from cosmic_tta.evaluation.evaluator import run_evaluation
from cosmic_tta.features.pack import FeaturePack


def test_dmn_is_zero_shot_and_the_official_memory(pack: FeaturePack) -> None:
    dmn = run_evaluation(Dmn(), pack, order="given")
    cosmic = run_evaluation(make_method("cosmic@official"), pack, order="given")
    np.testing.assert_array_equal(dmn.parts["clip_cache"], cosmic.parts["clip_cache"])
    mixed = dmn.parts["zero_shot"] + dmn.parts["clip_cache"]
    np.testing.assert_allclose(dmn.scores, mixed / mixed.sum(axis=1, keepdims=True), atol=1e-6)
