"""A generated feature stream with superclasses: something to adapt to, made from a seed alone."""

from __future__ import annotations

import numpy as np

from cosmic_tta.errors import InputError
from cosmic_tta.ops import Array, as_float32, unit
from cosmic_tta.packs import FeaturePack

DETAIL = 0.45  # how far classes of one superclass lie apart
MOVED = 1.2  # how far the new domain moves each class
SUPERCLASSES = ("bird", "boat", "bread", "bridge", "flower", "guitar", "lamp", "stone")


def superclass_pack(
    seed: int = 0,
    *,
    images: int = 1000,
    superclasses: int = 5,
    members: int = 4,
    views: int = 8,
    dim: int = 128,
    aux_dim: int = 96,
    noise: float = 2.3,
) -> FeaturePack:
    """Generate a pack whose classes come in superclasses of look-alikes, and whose domain has shifted.

    Texts stand where an unshifted image of the class would; every image is moved by one common shift, and each
    class by one of its own, so zero-shot mistakes look-alikes for one another. An auxiliary space,
    without texts, sees the same classes with less noise. Views are noisy looks at one image.
    """
    if min(images, superclasses, members, views, dim, aux_dim) < 1:
        raise InputError("a generated pack needs at least one image, superclass, member, view and dimension.")
    if seed < 0:
        raise InputError(f"a seed must be 0 or more; given {seed}.")
    rng = np.random.default_rng(seed)
    classes = superclasses * members

    def directions(count: int, width: int) -> Array:
        return unit(as_float32(rng.standard_normal((count, width))))

    def class_means(width: int) -> Array:
        return np.repeat(directions(superclasses, width), members, axis=0) + DETAIL * directions(classes, width)

    text = class_means(dim)
    shifted = text + 0.8 * directions(1, dim) + MOVED * directions(classes, dim)
    auxiliary = class_means(aux_dim)
    labels = rng.integers(classes, size=images)

    def looks(means: Array, spread: float) -> Array:
        return as_float32(means + spread * rng.standard_normal(means.shape) / np.sqrt(means.shape[-1]))

    image = looks(shifted[labels], noise)  # [N, D]
    clip = looks(np.repeat(image[:, None], views, axis=1), 0.6)  # [N, V, D]
    clip[:, 0] = image
    return FeaturePack(
        name=f"generated-{classes}",
        class_names=tuple(
            f"{SUPERCLASSES[s % len(SUPERCLASSES)]} {s // len(SUPERCLASSES) * members + m + 1}"
            for s in range(superclasses)
            for m in range(members)
        ),
        clip=unit(clip),
        text=unit(text),
        aux=unit(looks(auxiliary[labels], 0.8 * noise)),
        labels=labels,
        logit_scale=30.0,
        clip_model="generated",
        aux_model="generated",
        source=f"superclass_pack(seed={seed})",
        licence="MIT",
    )
