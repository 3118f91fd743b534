"""Why BayesMeans predicted a class, from arrays that were copied at the prediction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cosmic_tta.core.arrays import Array, Ints
from cosmic_tta.core.explanation import Explanation, votes


def explain(
    class_names: Sequence[str], label: int, samples: Ints, weights: Array, reliability: Mapping[str, float],
    soft_counts: Array, bias: Array,
) -> Explanation:  # fmt: skip
    """Explain a prediction.

    Args:
        class_names: Of the task.
        label: The predicted class.
        samples: Positions in the stream of the samples that vote for it, [n].
        weights: Their votes, [n].
        reliability: Of each space.
        soft_counts: Samples counted to each class, [K].
        bias: What is subtracted from each class's score, [K].
    """
    return Explanation(
        votes={"clip": votes(class_names[label], samples, weights)},
        reliability=dict(reliability),
        soft_counts=dict(zip(class_names, soft_counts.tolist(), strict=True)),
        bias=dict(zip(class_names, bias.tolist(), strict=True)),
    )
