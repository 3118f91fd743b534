"""Text towers of encoders, attached to tasks and packs for methods that learn prompts."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

from cosmic_tta.core.errors import CosmicError, EncoderError
from cosmic_tta.core.method import Method
from cosmic_tta.core.types import PromptTower, Task
from cosmic_tta.encoders import make_tower
from cosmic_tta.features.pack import FeaturePack

CACHED_TOWERS = 2  # a sweep uses the same pack again


def needs_prompt_tower(method: Method[Any] | type[Method[Any]]) -> bool:
    """Return whether a method learns through the text tower."""
    return "tower" in method.needs


def attach_task_tower(task: Task, spec: str | None = None, *, device: str = "auto", dtype: str = "auto") -> Task:
    """Return the task with the text tower of its encoder, or of the encoder `spec`.

    Raises:
        EncoderError: torch or the encoder's weights are missing.
    """
    return replace(task, tower=_tower(spec or task.encoder, task.class_names, device, dtype))


def attach_tower(
    pack: FeaturePack, spec: str | None = None, *, device: str = "auto", dtype: str = "auto"
) -> FeaturePack:
    """Return the pack with the text tower of its encoder, or of the encoder `spec`.

    Raises:
        EncoderError: torch or the encoder's weights are missing.
    """
    try:
        return pack.with_tower(_tower(spec or pack.clip_model, pack.class_names, device, dtype))
    except CosmicError as error:
        unknown = not spec and isinstance(error, (EncoderError, LookupError))
        hint = " If the encoder has another name here, give it: --tower FAMILY:MODEL." if unknown else ""
        named = spec or pack.clip_model or "no encoder is named"
        message = f"the text tower of {pack.name!r} ({named}): {error}{hint}"
        raise (type(error) if not isinstance(error, LookupError) else EncoderError)(message) from error


@lru_cache(maxsize=CACHED_TOWERS)
def _tower(spec: str, class_names: tuple[str, ...], device: str, dtype: str) -> PromptTower:
    return make_tower(spec, class_names, device=device, dtype=dtype)
