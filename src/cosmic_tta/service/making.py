"""What a stream is made of, from what a client asked for: the method, the task, the task after a change of classes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cosmic_tta.classifier import DEFAULT_AUX, DEFAULT_CLIP, PLAIN
from cosmic_tta.core import Method, Task
from cosmic_tta.errors import InputError
from cosmic_tta.methods import make_method, split_name
from cosmic_tta.ops import Array
from cosmic_tta.prompts import class_texts, named_templates
from cosmic_tta.service.encoding import Encoders
from cosmic_tta.service.schemas import MOST_CLASSES, ChangeClasses, CreateStream
from cosmic_tta.state import state_bytes
from cosmic_tta.towers import task_with_tower, wants_tower

LARGEST_STATE = 512 << 20  # bytes
# What a method may need that a request cannot bring.
LACKING = {
    "support": "labelled training features, which the service does not take: use cosmic eval --support",
    "checkpoint": "a trained checkpoint, which the service does not take: use cosmic eval --checkpoint",
}


def method_of(wanted: CreateStream) -> Method[Any]:
    """Make the method, or say what it needs."""
    spec = f"{wanted.method}@{wanted.preset}"
    kind, _ = split_name(spec)
    for need in kind.needs:
        if need in LACKING:
            raise InputError(f"{wanted.method} needs {LACKING[need]}; cosmic methods tells the others.")
    values = {name: tuple(value) if isinstance(value, list) else value for name, value in wanted.params.items()}
    return make_method(spec, **values)


def equipped(method: Method[Any], task: Task) -> Task:
    """Return the task with its encoder's text tower, if the method learns through it."""
    if not wants_tower(method):
        return task
    if not task.encoder:
        raise InputError(f"{method.name} learns through the text tower of an encoder; this stream has features alone.")
    return task_with_tower(task)


def check_size(method: Method[Any], wanted: CreateStream, task: Task) -> None:
    """Refuse a stream that takes too much memory, before the memory is taken."""
    if wants_tower(method):
        return  # it keeps nothing of the stream
    # A narrow task of one class tells what the parameters add.
    narrow = Task(task.class_names[:1], np.ones((1, 1), np.float32))
    plain = make_method(f"{wanted.method}@{wanted.preset}")
    size = (state_bytes(method.init(narrow)) - state_bytes(plain.init(narrow))) * task.classes * task.dim
    if size <= 4 * LARGEST_STATE:
        size = state_bytes(method.init(task))
    if size > LARGEST_STATE:
        raise InputError(
            f"these classes and parameters take some {size / 1e9:.1f} GB; a stream may take {LARGEST_STATE / 1e9:.1f}."
        )


async def new_task(wanted: CreateStream, encoders: Encoders, most_views: int) -> tuple[dict[str, Any], Task]:
    """Return what is remembered of how a stream was made, and its task."""
    _few_enough(wanted.classes)
    about: dict[str, Any] = {"preset": wanted.preset, "views": wanted.views, "seed": wanted.seed}
    if wanted.encoder is None:
        for name in ("aux", "templates", "descriptions"):
            if getattr(wanted, name) is not None:
                raise InputError(f"{name} is for a stream with an encoder; this one has features alone.")
        if wanted.text is None:
            raise InputError("a stream without an encoder needs text: a unit row for each class.")
        if len({len(row) for row in wanted.text}) != 1:
            raise InputError("the rows of text must all have one length.")
        scale = 100.0 if wanted.logit_scale is None else wanted.logit_scale
        return about, Task(tuple(wanted.classes), np.array(wanted.text, np.float32), scale)
    if wanted.text is not None or wanted.logit_scale is not None:
        raise InputError('text and logit_scale are for a stream without an encoder: give "encoder": null too.')
    if wanted.views > most_views:
        raise InputError(f"this server makes at most {most_views} views a picture; given {wanted.views}.")
    aux = wanted.aux
    if "aux" not in wanted.model_fields_set:
        aux = DEFAULT_AUX if wanted.encoder == DEFAULT_CLIP else None
    clip = await encoders.clip(wanted.encoder)
    image = None if aux is None else await encoders.image(aux)
    templates = [text for name in wanted.templates or PLAIN for text in named_templates(name)]
    texts = class_texts(wanted.classes, templates, wanted.descriptions, say=lambda sentence: None)
    Task(tuple(wanted.classes), np.ones((len(texts), 1), np.float32))  # names are refused before they are encoded
    about |= {
        "encoder": wanted.encoder,
        "encoder_fingerprint": clip.encoder.fingerprint,
        "aux": aux,
        "aux_fingerprint": None if image is None else image.encoder.fingerprint,
        "templates": templates,
        "descriptions": wanted.descriptions,
    }
    tower: Any = clip.encoder
    width = None if image is None else image.encoder.dim
    names = tuple(wanted.classes)
    return about, Task(names, await clip.texts(texts), tower.logit_scale, width, wanted.encoder, aux or "")


async def changed_task(old: Task, about: Mapping[str, Any], wanted: ChangeClasses, encoders: Encoders) -> Task:
    """Return the task after a change of classes; classes that stay keep their text features."""
    names = _changed(old.class_names, wanted)
    rows = await _rows(encoders, old, about, names, wanted)
    return Task(tuple(names), rows, old.logit_scale, old.aux_dim, old.encoder, old.aux_encoder)


async def _rows(
    encoders: Encoders, old: Task, about: Mapping[str, Any], names: Sequence[str], wanted: ChangeClasses
) -> Array:
    """Return the text features of new classes: those of names that stay are kept as they are."""
    before = {new: old.class_names.index(name) for name, new in wanted.rename.items()}
    kept = {name: place for place, name in enumerate(old.class_names) if name not in wanted.rename}
    encoder = about.get("encoder")
    if wanted.keep_text or encoder is None:
        kept |= before
    given = wanted.text or {}
    if given and encoder is not None:
        raise InputError("text is for a stream without an encoder; this one encodes its class names itself.")
    strangers = [name for name in given if name not in names]
    if strangers:
        raise InputError(f"text speaks of {strangers[0][:80]!r}, which is none of the classes after the change.")
    new = [name for name in names if name not in kept and name not in given]
    rows = {name: old.text[place] for name, place in kept.items()}
    if new and encoder is None:
        raise InputError(f"this stream has no encoder: give text, a unit row, for {new[0][:80]!r} too.")
    if new:
        clip = await encoders.clip(str(encoder))
        texts = class_texts(new, about["templates"], _only(about.get("descriptions"), new), say=lambda _: None)
        rows |= dict(zip(new, await clip.texts(texts), strict=True))
    for name, row in given.items():
        if len(row) != old.dim:
            raise InputError(f"text of {name[:80]!r} is {len(row)} wide; this stream's texts are {old.dim} wide.")
        rows[name] = np.array(row, np.float32)
    return np.stack([rows[name] for name in names])


def _changed(names: Sequence[str], wanted: ChangeClasses) -> list[str]:
    """Return the classes after a change, or say why it makes no sense."""
    if not (wanted.add or wanted.remove or wanted.rename):
        raise InputError("say what to change: add, remove or rename.")
    for word, given in (("remove", wanted.remove), ("rename", list(wanted.rename))):
        unknown = [name for name in given if name not in names]
        if unknown:
            raise InputError(f"{word}: {unknown[0][:80]!r} is none of the stream's {len(names)} classes.")
    both = set(wanted.remove) & set(wanted.rename)
    if both:
        raise InputError(f"{min(both)[:80]!r} is to be removed and renamed; it cannot be both.")
    left = [wanted.rename.get(name, name) for name in names if name not in set(wanted.remove)]
    changed = left + list(wanted.add)
    _few_enough(changed)
    if not changed:
        raise InputError("no class would be left; a stream needs at least one.")
    if len(set(changed)) < len(changed):
        twice = Counter(changed).most_common(1)[0][0]
        raise InputError(f"{twice[:80]!r} would be there twice; class names must differ.")
    return changed


def _few_enough(classes: Sequence[str]) -> None:
    if len(classes) > MOST_CLASSES:
        raise InputError(f"a stream has at most {MOST_CLASSES:,} classes here; given {len(classes):,}.")


def _only(descriptions: Mapping[str, Sequence[str]] | None, names: Sequence[str]) -> dict[str, Sequence[str]] | None:
    """Return the descriptions of some classes, None if there are none."""
    found = {name: own for name, own in (descriptions or {}).items() if name in names}
    return found or None
