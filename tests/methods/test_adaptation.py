from __future__ import annotations

import numpy as np
import pytest

from cosmic_tta import make_method
from cosmic_tta.evaluation.evaluator import run_evaluation
from cosmic_tta.features.synthetic import superclass_pack


@pytest.mark.parametrize("spec", ["tda", "dmn", "cosmic@official", "cosmic@paper", "cosmic"])
def test_adaptation_helps_on_a_shifted_stream(spec: str) -> None:
    gains = [
        run_evaluation(make_method(spec), superclass_pack(seed), seed=seed).report.metrics["gain"] for seed in (0, 1)
    ]
    assert np.mean(gains) > 0.005
