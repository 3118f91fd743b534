"""Hard beds for `bayes_means`, generated from a seed: a thousand classes with four images each, and no shift at all.

Run it with one BLAS thread: OPENBLAS_NUM_THREADS=1 python benchmarks/beds.py [--seeds 0,1,2] [--set key=value ...]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np

from cosmic_tta import BayesMeans
from cosmic_tta.evaluate import score
from cosmic_tta.ops import Array, as_float32, unit
from cosmic_tta.packs import FeaturePack
from cosmic_tta.parameters import parse


def directions(rng: np.random.Generator, count: int, dim: int, decay: float) -> Array:
    """Unit rows, centred, whose variance falls from dimension to dimension as encoders' does."""
    rows = rng.standard_normal((count, dim)) * (np.arange(dim) + 20.0) ** (-decay / 2)
    return unit(as_float32(rows - rows.mean(axis=0) * (count > 1)))


def families(rng: np.random.Generator, classes: int, dim: int, decay: float) -> Array:
    """Class directions in confusable tens."""
    shared = np.repeat(directions(rng, classes // 10, dim, decay), 10, axis=0)
    return unit(0.6 * shared + 0.8 * directions(rng, classes, dim, decay))


def thousand_classes(seed: int, classes: int = 1000, each: int = 4, dim: int = 256) -> FeaturePack:
    """CLIP-like geometry: a modality gap, texts near the class directions, much anisotropic noise."""
    rng = np.random.default_rng(1000 + seed)
    looks, aux_looks = families(rng, classes, dim, 0.8), families(rng, classes, dim, 0.8)
    meant = unit(0.9 * looks + 0.44 * families(rng, classes, dim, 0.5))  # what the texts say of the looks
    common, gap, aux_common = directions(rng, 3, dim, 0.8)
    labels = np.repeat(np.arange(classes), each)
    noise = directions(rng, len(labels), dim, 1.3), directions(rng, len(labels), dim, 1.1)
    return FeaturePack(
        name=f"{classes} classes, {each} images each",
        class_names=tuple(f"class {k}" for k in range(classes)),
        clip=unit(0.74 * common + 0.32 * looks[labels] + 0.59 * noise[0])[:, None],
        text=unit(0.87 * unit(0.35 * common + 0.93 * gap) + 0.5 * meant),
        aux=unit(0.8 * aux_common + 0.39 * aux_looks[labels] + 0.77 * noise[1]),
        labels=labels,
    )


def no_shift(seed: int, classes: int = 10, images: int = 2000, dim: int = 64) -> FeaturePack:
    """Images spread evenly around the very texts: zero-shot is the best that there is."""
    rng = np.random.default_rng(2000 + seed)
    text = unit(as_float32(rng.standard_normal((classes, dim))))
    text[1::2] = unit(text[1::2] + 0.7 * text[0::2])
    labels = rng.integers(classes, size=images)
    noise = as_float32(rng.standard_normal((images, dim)) / np.sqrt(dim))
    clip = unit(0.5 * text[labels] + 1.6 * noise)[:, None]
    return FeaturePack(
        "no shift", tuple(f"class {k}" for k in range(classes)), clip, text, labels=labels, logit_scale=12.0
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a parameter of bayes_means")
    chosen = parser.parse_args()
    pairs = [text.split("=", 1) for text in chosen.set]
    method = BayesMeans(**{key: parse(BayesMeans, key, value) for key, value in pairs})
    beds: list[tuple[Callable[[int], FeaturePack], str]] = [
        (thousand_classes, "given"), (thousand_classes, "none"), (no_shift, "given"),
    ]  # fmt: skip
    seeds = [int(seed) for seed in chosen.seeds.split(",")]
    for make, aux in beds:
        packs = [make(seed) for seed in seeds]
        runs = [score(method, pack, aux=aux, seed=seed).report for pack, seed in zip(packs, seeds, strict=True)]
        zero_shot = np.mean([run.metrics["zero_shot_acc1"] for run in runs])
        gains = [100 * run.metrics["gain"] for run in runs]
        spent = np.mean([run.ms_per_sample for run in runs])
        print(
            f"{packs[0].name}, {'with' if packs[0].aux is not None and aux == 'given' else 'without'} aux: "
            f"{np.mean(gains):+.2f} over zero-shot {zero_shot:.2%} (worst {min(gains):+.2f}), {spent:.1f} ms a sample",
            flush=True,
        )


if __name__ == "__main__":
    main()
