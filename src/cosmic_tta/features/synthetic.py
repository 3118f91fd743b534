"""A synthetic pack with superclasses and a shifted domain, generated from a seed."""

from __future__ import annotations

import numpy as np

from cosmic_tta.core.arrays import Array, as_float32, unit
from cosmic_tta.core.errors import InputError
from cosmic_tta.features.pack import FeaturePack

CLASS_SPREAD = 0.45  # distance of the classes of one superclass
COMMON_SHIFT = 0.8  # length of the shift of all images
CLASS_SHIFT = 1.2  # length of the shift of each class
VIEW_NOISE = 0.6  # spread of the views of an image
AUX_NOISE = 0.8  # spread of the auxiliary features, relative to that of the CLIP features
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
    """Generate a pack whose classes form superclasses of similar classes, and whose domain is shifted.

    The text of a class is its mean before the shift. One common shift moves all images, and another one each
    class, so zero-shot confuses similar classes. The auxiliary features have the same classes and less noise.
    Views are noisy copies of one image.

    Args:
        seed: Seed of all random numbers.
        images: Number of images.
        superclasses: Number of superclasses.
        members: Classes per superclass.
        views: Views per image.
        dim: Width of the CLIP features.
        aux_dim: Width of the auxiliary features.
        noise: Spread of the images of a class.

    Returns:
        A pack with labels and auxiliary features.

    Raises:
        InputError: A size is below 1, or the seed is negative.

    Examples:
        >>> pack = superclass_pack(seed=0, images=50, superclasses=2, members=3)
        >>> pack.class_names[:4], pack.clip.shape
        (('bird 1', 'bird 2', 'bird 3', 'boat 1'), (50, 8, 128))
    """
    _check(seed, (images, superclasses, members, views, dim, aux_dim))
    rng = np.random.default_rng(seed)
    classes = superclasses * members
    text = _class_means(rng, superclasses, members, dim)
    shifted = text + COMMON_SHIFT * _directions(rng, 1, dim) + CLASS_SHIFT * _directions(rng, classes, dim)
    auxiliary = _class_means(rng, superclasses, members, aux_dim)
    labels = rng.integers(classes, size=images)
    clip = _views(rng, _noisy(rng, shifted[labels], noise), views)
    return FeaturePack(
        name=f"generated-{classes}",
        class_names=_class_names(superclasses, members),
        clip=unit(clip),
        text=unit(text),
        aux=unit(_noisy(rng, auxiliary[labels], AUX_NOISE * noise)),
        labels=labels,
        logit_scale=30.0,
        clip_model="generated",
        aux_model="generated",
        source=f"superclass_pack(seed={seed})",
        licence="MIT",
    )


def _check(seed: int, sizes: tuple[int, ...]) -> None:
    if min(sizes) < 1:
        raise InputError("a generated pack needs at least one image, superclass, member, view and dimension.")
    if seed < 0:
        raise InputError(f"a seed must be 0 or more; given {seed}.")


def _directions(rng: np.random.Generator, count: int, width: int) -> Array:
    return unit(as_float32(rng.standard_normal((count, width))))


def _class_means(rng: np.random.Generator, superclasses: int, members: int, width: int) -> Array:
    superclass_means = np.repeat(_directions(rng, superclasses, width), members, axis=0)
    return superclass_means + CLASS_SPREAD * _directions(rng, superclasses * members, width)


def _noisy(rng: np.random.Generator, means: Array, spread: float) -> Array:
    return as_float32(means + spread * rng.standard_normal(means.shape) / np.sqrt(means.shape[-1]))


def _views(rng: np.random.Generator, images: Array, count: int) -> Array:
    """Return noisy copies of images [N, D] as their views [N, V, D]; view 0 is the image."""
    views = _noisy(rng, np.repeat(images[:, None], count, axis=1), VIEW_NOISE)
    views[:, 0] = images
    return views


def _class_names(superclasses: int, members: int) -> tuple[str, ...]:
    """Return names such as `bird 1`; after all words are used, their numbers go on."""
    names = []
    for superclass in range(superclasses):
        used, word = divmod(superclass, len(SUPERCLASSES))
        names += [f"{SUPERCLASSES[word]} {used * members + member + 1}" for member in range(members)]
    return tuple(names)
