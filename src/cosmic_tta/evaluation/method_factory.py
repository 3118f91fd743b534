"""Make any registered method for a pack, with what it needs: a support, a short training, a random text tower."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from cosmic_tta.core.errors import EncoderError
from cosmic_tta.core.method import Method
from cosmic_tta.core.types import PromptTower, Support
from cosmic_tta.features.pack import FeaturePack
from cosmic_tta.methods import make_method, split_name
from cosmic_tta.methods.components.training import Checkpoint
from cosmic_tta.methods.prompt_tuning.context import INSTALL
from cosmic_tta.training.trainer import TrainingConfig, train_to_end

MethodFactory = Callable[[FeaturePack], Method[Any]]


def with_random_tower(pack: FeaturePack) -> FeaturePack:
    """Return the pack with a small text tower of random weights. It needs torch."""
    return pack.with_tower(_tower(pack.class_names, pack.text.shape[1]))


@lru_cache(maxsize=4)
def _tower(class_names: tuple[str, ...], dim: int) -> PromptTower:
    try:
        from cosmic_tta.encoders.random_tower import random_tower
    except ImportError as error:
        raise EncoderError(f"this method learns prompts, and is checked with torch: {INSTALL}.") from error
    return random_tower(class_names, dim)


def factory_of(spec: str, **parameters: Any) -> MethodFactory:
    """Return a function that makes a registered method for a pack, with a support or a short training if it needs it.

    Args:
        spec: `name` or `name@preset`.
        **parameters: Values that differ from the preset.
    """
    kind, _ = split_name(spec)

    def make(pack: FeaturePack) -> Method[Any]:
        given = dict(parameters)
        if "support" in kind.needs:
            given.setdefault("support", pack.support())
        if "checkpoint" in kind.needs and "checkpoint" not in given:
            if kind.name not in _CHECKPOINTS or _CHECKPOINTS[kind.name][0] != _key(pack):
                _CHECKPOINTS[kind.name] = _key(pack), _short_training(kind, pack)
            given["checkpoint"] = _CHECKPOINTS[kind.name][1]
        return make_method(spec, **given)

    return make


_CHECKPOINTS: dict[str, tuple[Any, Checkpoint]] = {}  # of the last pack per method: every check asks for one


def _key(pack: FeaturePack) -> Any:
    return pack.class_names, pack.clip.shape, pack.source


def _short_training(kind: type[Method[Any]], pack: FeaturePack) -> Checkpoint:
    pack = with_random_tower(pack) if "tower" in kind.needs else pack
    labels, first = np.unique(np.asarray(pack.labels), return_index=True)
    absent = [k for k in range(len(pack.class_names)) if k not in labels]  # a short stream need not have every class
    features = np.concatenate([pack.clip[first, 0], pack.text[absent]])
    support = Support(features, np.concatenate([labels, np.array(absent, np.int64)]), pack.class_names)
    return train_to_end(kind.name, pack.task(), support, TrainingConfig(epochs=2, batch=8))
