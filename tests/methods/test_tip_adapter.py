from __future__ import annotations

import numpy as np
import pytest

from cosmic_tta import Support, Task, TipAdapter
from cosmic_tta.core.arrays import Array, as_float32, unit
from cosmic_tta.core.errors import InputError, ParameterError
from cosmic_tta.evaluation.evaluator import run_evaluation
from cosmic_tta.features.pack import FeaturePack
from cosmic_tta.features.synthetic import superclass_pack

TEXT = unit(as_float32(np.random.default_rng(0).standard_normal((3, 8))))
NAMES = ("cat", "dog", "owl")


def test_tip_adapter_is_its_formula(pack: FeaturePack) -> None:
    support = superclass_pack(3, images=40, dim=32, aux_dim=24, views=1).support()
    run = run_evaluation(TipAdapter(support=support, alpha=1.3, beta=4.0), pack, order="given")
    onehot = np.eye(len(pack.class_names))[support.labels]
    cache = np.exp(-4.0 * (1 - pack.clip[:, 0] @ support.features.T)) @ onehot
    np.testing.assert_allclose(
        run.parts["logits"], pack.logit_scale * pack.clip[:, 0] @ pack.text.T + 1.3 * cache, atol=1e-3
    )


def cache_prediction(query: Array, support: Support, classes: int) -> Array:
    """Tip-Adapter's cache as the paper's appendix has it once the scaling function is taken away."""
    onehot = np.eye(classes, dtype=np.float32)[support.labels]
    return as_float32((query @ support.features.T) @ onehot)


def test_without_scaling_the_cache_is_the_similarity_to_class_sums(pack: FeaturePack) -> None:
    support = pack.support()
    classes = len(pack.class_names)
    sums = np.stack([support.features[support.labels == k].sum(axis=0) for k in range(classes)])
    got = cache_prediction(pack.clip[:, 0], support, classes)
    np.testing.assert_allclose(got, pack.clip[:, 0] @ sums.T, atol=1e-4)
    # And it is what our method does as its affinity becomes linear: exp(-β(1-x)) → 1 - β(1-x) for small β.
    beta = 1e-3
    run = run_evaluation(TipAdapter(support=support, beta=beta), pack, order="given")
    counts = np.bincount(support.labels, minlength=classes)
    np.testing.assert_allclose((run.parts["cache"] - (1 - beta) * counts) / beta, got, atol=2e-2)


def test_divided_by_class_sizes_it_is_the_similarity_to_class_centroids(pack: FeaturePack) -> None:
    support = pack.support()
    classes = len(pack.class_names)
    sizes = np.bincount(support.labels, minlength=classes)
    assert (sizes > 0).all()
    centroids = np.stack([support.features[support.labels == k].mean(axis=0) for k in range(classes)])
    got = cache_prediction(pack.clip[:, 0], support, classes) / sizes
    np.testing.assert_allclose(got, pack.clip[:, 0] @ centroids.T, atol=1e-5)


def test_a_support_must_fit_the_task() -> None:
    for wrong in (None, TEXT):
        with pytest.raises(ParameterError, match="needs labelled training features"):
            TipAdapter(support=wrong)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="classes are not the task's, or in another order"):
        TipAdapter(support=Support(TEXT, np.arange(3), ("dog", "cat", "owl"))).init(Task(NAMES, TEXT))
    with pytest.raises(InputError, match="labels go from 0 to 5; this task has the classes 0 to 2"):
        TipAdapter(support=Support(TEXT, np.array([0, 1, 5]))).init(Task(NAMES, TEXT))
    with pytest.raises(InputError, match="support's features are 8 wide, the class texts 3 wide"):
        TipAdapter(support=Support(TEXT, np.array([0, 1, 2]))).init(Task(NAMES, np.eye(3, dtype=np.float32)))
