"""The text towers of encoders, for tasks and packs of methods that learn prompts."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

from cosmic_tta.core import Method, Task, TextTower
from cosmic_tta.encoders import make_tower
from cosmic_tta.errors import CosmicError, EncoderError
from cosmic_tta.packs import FeaturePack

KEPT = 2  # towers: a sweep comes back to the same pack


def wants_tower(method: Method[Any] | type[Method[Any]]) -> bool:
    """Tell whether a method learns through the text tower."""
    return "tower" in method.needs


def task_with_tower(task: Task, spec: str | None = None, *, device: str = "auto", dtype: str = "auto") -> Task:
    """Return the task with the text tower of its encoder, or of the one that is named.

    Raises:
        EncoderError: torch or the encoder's weights are missing; the message says what to do.
    """
    return replace(task, tower=_tower(spec or task.encoder, task.class_names, device, dtype))


def with_tower(pack: FeaturePack, spec: str | None = None, *, device: str = "auto", dtype: str = "auto") -> FeaturePack:
    """Return the pack with the text tower of the encoder that made it, or of the one that is named.

    Raises:
        EncoderError: torch or the encoder's weights are missing; the message says what to do.
    """
    try:
        return pack.with_tower(_tower(spec or pack.clip_model, pack.class_names, device, dtype))
    except CosmicError as error:
        asks = not spec and isinstance(error, (EncoderError, LookupError))
        hint = " Is it known by another name here? Then --tower FAMILY:MODEL says so." if asks else ""
        told = f"the text tower of {pack.name!r} ({spec or pack.clip_model or 'no encoder is named'}): {error}{hint}"
        raise (type(error) if not isinstance(error, LookupError) else EncoderError)(told) from error


@lru_cache(maxsize=KEPT)
def _tower(spec: str, class_names: tuple[str, ...], device: str, dtype: str) -> TextTower:
    return make_tower(spec, class_names, device=device, dtype=dtype)
