"""What a stream is created from: its method, its task, and its task after a change of classes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cosmic_tta.classifier import DEFAULT_AUX, DEFAULT_CLIP, DEFAULT_TEMPLATES
from cosmic_tta.core.arrays import Array
from cosmic_tta.core.errors import InputError
from cosmic_tta.core.method import Method
from cosmic_tta.core.state_tree import state_bytes
from cosmic_tta.core.types import Task
from cosmic_tta.data.prompts import class_sentences, find_templates
from cosmic_tta.features.text_towers import attach_task_tower, needs_prompt_tower
from cosmic_tta.methods import make_method, split_name
from cosmic_tta.service.encoder_batching import EncoderPool
from cosmic_tta.service.schemas import MAX_CLASSES, ChangeClasses, CreateStream

MAX_STATE_BYTES = 512 << 20
DEFAULT_LOGIT_SCALE = 100.0
# What a method may need that a request cannot bring.
UNSUPPORTED_NEEDS = {
    "support": "labelled training features, which the service does not take. Use cosmic eval --support",
    "checkpoint": "a trained checkpoint, which the service does not take. Use cosmic eval --checkpoint",
}


def make_stream_method(request: CreateStream) -> Method[Any]:
    """Make the method of a stream, or raise an error that says what it needs."""
    spec = f"{request.method}@{request.preset}"
    kind, _ = split_name(spec)
    for need in kind.needs:
        if need in UNSUPPORTED_NEEDS:
            raise InputError(f"{request.method} needs {UNSUPPORTED_NEEDS[need]}; cosmic methods lists the others.")
    values = {name: tuple(value) if isinstance(value, list) else value for name, value in request.params.items()}
    return make_method(spec, **values)


def attach_resources(method: Method[Any], task: Task) -> Task:
    """Return the task, with the text tower of its encoder if the method tunes prompts."""
    if not needs_prompt_tower(method):
        return task
    if not task.encoder:
        raise InputError(f"{method.name} needs the text tower of an encoder; this stream takes features alone.")
    return attach_task_tower(task)


def check_size(method: Method[Any], request: CreateStream, task: Task) -> None:
    """Refuse a stream whose state would be too large, before the memory is allocated."""
    if needs_prompt_tower(method):
        return  # its state does not grow with the task
    # The size is estimated with one class of one dimension first.
    narrow = Task(task.class_names[:1], np.ones((1, 1), np.float32))
    default = make_method(f"{request.method}@{request.preset}")
    size = (state_bytes(method.init(narrow)) - state_bytes(default.init(narrow))) * task.classes * task.dim
    if size <= 4 * MAX_STATE_BYTES:
        size = state_bytes(method.init(task))
    if size > MAX_STATE_BYTES:
        raise InputError(
            f"these classes and parameters need about {size / 1e9:.1f} GB; the limit per stream is "
            f"{MAX_STATE_BYTES / 1e9:.1f} GB."
        )


async def new_task(request: CreateStream, encoders: EncoderPool, max_views: int) -> tuple[dict[str, Any], Task]:
    """Return the metadata and the task of a new stream."""
    _check_class_count(request.classes)
    metadata: dict[str, Any] = {"preset": request.preset, "views": request.views, "seed": request.seed}
    if request.encoder is None:
        return metadata, _feature_task(request)
    if request.text is not None or request.logit_scale is not None:
        raise InputError('text and logit_scale are for a stream without an encoder. Add "encoder": null.')
    if request.views > max_views:
        raise InputError(f"this server makes at most {max_views} views per image; given {request.views}.")
    aux_name = request.aux
    if "aux" not in request.model_fields_set:
        aux_name = DEFAULT_AUX if request.encoder == DEFAULT_CLIP else None
    clip = await encoders.clip(request.encoder)
    aux = None if aux_name is None else await encoders.image(aux_name)
    templates = [text for name in request.templates or DEFAULT_TEMPLATES for text in find_templates(name)]
    texts = class_sentences(request.classes, templates, request.descriptions, warn=lambda sentence: None)
    names = tuple(request.classes)
    Task(names, np.ones((len(texts), 1), np.float32))  # refuses bad names before they are encoded
    metadata |= {
        "encoder": request.encoder,
        "encoder_fingerprint": clip.encoder.fingerprint,
        "aux": aux_name,
        "aux_fingerprint": None if aux is None else aux.encoder.fingerprint,
        "templates": templates,
        "descriptions": request.descriptions,
    }
    clip_encoder: Any = clip.encoder
    aux_dim = None if aux is None else aux.encoder.dim
    text = await clip.encode_classes(texts)
    return metadata, Task(names, text, clip_encoder.logit_scale, aux_dim, request.encoder, aux_name or "")


def _feature_task(request: CreateStream) -> Task:
    """Return the task of a stream without an encoder."""
    for name in ("aux", "templates", "descriptions"):
        if getattr(request, name) is not None:
            raise InputError(f"{name} is for a stream with an encoder; this one takes features alone.")
    if request.text is None:
        raise InputError("a stream without an encoder needs text: one unit row per class.")
    if len({len(row) for row in request.text}) != 1:
        raise InputError("the rows of text must have the same length.")
    scale = DEFAULT_LOGIT_SCALE if request.logit_scale is None else request.logit_scale
    return Task(tuple(request.classes), np.array(request.text, np.float32), scale)


async def changed_task(old: Task, metadata: Mapping[str, Any], request: ChangeClasses, encoders: EncoderPool) -> Task:
    """Return the task after a change of classes. Classes that stay keep their text features."""
    names = _changed_names(old.class_names, request)
    rows = await _text_rows(encoders, old, metadata, names, request)
    return Task(tuple(names), rows, old.logit_scale, old.aux_dim, old.encoder, old.aux_encoder)


async def _text_rows(
    encoders: EncoderPool, old: Task, metadata: Mapping[str, Any], names: Sequence[str], request: ChangeClasses
) -> Array:
    """Return the text features of all classes after a change: kept, given or encoded."""
    kept = {name: index for index, name in enumerate(old.class_names) if name not in request.rename}
    encoder = metadata.get("encoder")
    if request.keep_text or encoder is None:
        kept |= {new: old.class_names.index(name) for name, new in request.rename.items()}
    given = request.text or {}
    if given and encoder is not None:
        raise InputError("text is for a stream without an encoder; this one encodes its class names.")
    unknown = [name for name in given if name not in names]
    if unknown:
        raise InputError(f"text has a row for {unknown[0][:80]!r}, which is not a class after the change.")
    new = [name for name in names if name not in kept and name not in given]
    rows = {name: old.text[index] for name, index in kept.items()}
    if new and encoder is None:
        raise InputError(f"this stream has no encoder: add a unit row for {new[0][:80]!r} to text.")
    if new:
        clip = await encoders.clip(str(encoder))
        descriptions = _descriptions_of(new, metadata.get("descriptions"))
        texts = class_sentences(new, metadata["templates"], descriptions, warn=lambda sentence: None)
        rows |= dict(zip(new, await clip.encode_classes(texts), strict=True))
    for name, row in given.items():
        if len(row) != old.dim:
            raise InputError(f"the text row of {name[:80]!r} has {len(row)} numbers; this stream expects {old.dim}.")
        rows[name] = np.array(row, np.float32)
    return np.stack([rows[name] for name in names])


def _changed_names(names: Sequence[str], request: ChangeClasses) -> list[str]:
    """Return the classes after a change, or raise an error that says why it is not possible."""
    if not (request.add or request.remove or request.rename):
        raise InputError("the change is empty; give add, remove or rename.")
    for field, given in (("remove", request.remove), ("rename", list(request.rename))):
        unknown = [name for name in given if name not in names]
        if unknown:
            raise InputError(f"{field}: {unknown[0][:80]!r} is not among the stream's {len(names)} classes.")
    both = set(request.remove) & set(request.rename)
    if both:
        raise InputError(f"{min(both)[:80]!r} is in remove and in rename; put it into one of them.")
    kept = [request.rename.get(name, name) for name in names if name not in set(request.remove)]
    changed = kept + list(request.add)
    _check_class_count(changed)
    if not changed:
        raise InputError("the change removes all classes; a stream needs at least one.")
    if len(set(changed)) < len(changed):
        duplicate = Counter(changed).most_common(1)[0][0]
        raise InputError(f"{duplicate[:80]!r} would exist twice; class names must differ.")
    return changed


def _check_class_count(classes: Sequence[str]) -> None:
    if len(classes) > MAX_CLASSES:
        raise InputError(f"a stream has at most {MAX_CLASSES:,} classes; given {len(classes):,}.")


def _descriptions_of(
    names: Sequence[str], descriptions: Mapping[str, Sequence[str]] | None
) -> dict[str, Sequence[str]] | None:
    """Return the descriptions of some classes, or None if there are none."""
    found = {name: texts for name, texts in (descriptions or {}).items() if name in names}
    return found or None
