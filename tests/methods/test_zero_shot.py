from __future__ import annotations

import numpy as np

from cosmic_tta import ZeroShot
from cosmic_tta.core.arrays import softmax
from cosmic_tta.evaluation.evaluator import run_evaluation
from cosmic_tta.features.pack import FeaturePack


def test_zero_shot_is_the_softmax_of_scaled_cosines(pack: FeaturePack) -> None:
    run = run_evaluation(ZeroShot(), pack, order="given")
    expected = softmax(np.float32(pack.logit_scale) * pack.clip[:, 0] @ pack.text.T)
    np.testing.assert_allclose(run.scores, expected, atol=1e-5)
