"""Evaluate `bayes_means` on generated packs where adaptation is hard.

One has a thousand classes with four images each. One has no distribution shift, so zero-shot is optimal. Two have a
common shift of all features, strong and extreme; there `cosmic@paper` is beside it, on four kinds of streams.

    OPENBLAS_NUM_THREADS=1 python benchmarks/hard_packs.py [--seeds 0,1,2] [--set KEY=VALUE ...]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np

from cosmic_tta import BayesMeans, make_method
from cosmic_tta.core.arrays import Array, as_float32, unit
from cosmic_tta.core.parameters import parse
from cosmic_tta.evaluation.evaluator import run_evaluation
from cosmic_tta.features.pack import FeaturePack


def directions(rng: np.random.Generator, count: int, dim: int, decay: float) -> Array:
    """Generate centred unit rows whose variance falls from dimension to dimension, as in real encoders."""
    rows = rng.standard_normal((count, dim)) * (np.arange(dim) + 20.0) ** (-decay / 2)
    return unit(as_float32(rows - rows.mean(axis=0) * (count > 1)))


def class_directions(rng: np.random.Generator, classes: int, dim: int, decay: float) -> Array:
    """Generate class directions in groups of ten similar classes."""
    shared = np.repeat(directions(rng, classes // 10, dim, decay), 10, axis=0)
    return unit(0.6 * shared + 0.8 * directions(rng, classes, dim, decay))


def thousand_classes(seed: int, classes: int = 1000, each: int = 4, dim: int = 256) -> FeaturePack:
    """Generate CLIP-like features: a modality gap, texts near the class directions, and anisotropic noise."""
    rng = np.random.default_rng(1000 + seed)
    clip_directions, aux_directions = class_directions(rng, classes, dim, 0.8), class_directions(rng, classes, dim, 0.8)
    text_directions = unit(0.9 * clip_directions + 0.44 * class_directions(rng, classes, dim, 0.5))
    mean, gap, aux_mean = directions(rng, 3, dim, 0.8)
    labels = np.repeat(np.arange(classes), each)
    noise = directions(rng, len(labels), dim, 1.3), directions(rng, len(labels), dim, 1.1)
    return FeaturePack(
        name=f"{classes} classes, {each} images each",
        class_names=tuple(f"class {k}" for k in range(classes)),
        clip=unit(0.74 * mean + 0.32 * clip_directions[labels] + 0.59 * noise[0])[:, None],
        text=unit(0.87 * unit(0.35 * mean + 0.93 * gap) + 0.5 * text_directions),
        aux=unit(0.8 * aux_mean + 0.39 * aux_directions[labels] + 0.77 * noise[1]),
        labels=labels,
    )


def no_shift(seed: int, classes: int = 10, images: int = 2000, dim: int = 64) -> FeaturePack:
    """Generate images with isotropic noise around their texts, so that zero-shot is optimal."""
    rng = np.random.default_rng(2000 + seed)
    text = unit(as_float32(rng.standard_normal((classes, dim))))
    text[1::2] = unit(text[1::2] + 0.7 * text[0::2])
    labels = rng.integers(classes, size=images)
    noise = as_float32(rng.standard_normal((images, dim)) / np.sqrt(dim))
    clip = unit(0.5 * text[labels] + 1.6 * noise)[:, None]
    return FeaturePack(
        "no shift", tuple(f"class {k}" for k in range(classes)), clip, text, labels=labels, logit_scale=12.0
    )


def common_shift(seed: int, extreme: bool, classes: int = 25, each: int = 60, dim: int = 64) -> FeaturePack:
    """Generate Gaussian classes whose CLIP features all move in one direction, which favours some texts."""
    rng = np.random.default_rng(seed)
    text, offsets = rng.standard_normal((classes, dim)), rng.standard_normal((classes, dim))
    labels = np.repeat(np.arange(classes), each)
    offset, shift, noise, aux_noise = (0.9, 3.0, 2.2, 2.0) if extreme else (0.6, 2.2, 1.7, 1.8)
    moved = text + offset * offsets + shift * rng.standard_normal(dim)
    aux = rng.standard_normal((classes, dim)) + rng.standard_normal(dim)
    return FeaturePack(
        name=f"{'extreme' if extreme else 'strong'} shift",
        class_names=tuple(f"class {k}" for k in range(classes)),
        clip=unit(as_float32(moved[labels] + noise * rng.standard_normal((len(labels), dim))))[:, None],
        text=unit(as_float32(text)),
        aux=unit(as_float32(aux[labels] + aux_noise * rng.standard_normal((len(labels), dim)))),
        labels=labels,
        logit_scale=20.0,
    )


def compare_on_streams(method: BayesMeans, extreme: bool, seeds: list[int]) -> None:
    """Print the accuracy of zero-shot, COSMIC and the method on packs with a common shift."""
    for order in ("shuffle", "dirichlet", "few-classes", "class-sequential"):
        packs = [common_shift(seed, extreme) for seed in seeds]
        runs = [
            [run_evaluation(one, packs[n], order=order, seed=seed).report.metrics for n, seed in enumerate(seeds)]
            for one in (make_method("cosmic@paper"), method)
        ]
        zero_shot = 100 * np.mean([run["zero_shot_acc1"] for run in runs[0]])
        cosmic, ours = (100 * np.array([run["acc1"] for run in each]) for each in runs)
        print(
            f"{packs[0].name}, {order}: zero-shot {zero_shot:.1f}, cosmic@paper {cosmic.mean():.1f}, "
            f"bayes_means {ours.mean():.1f} (worst {ours.min():.1f})",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="0,1,2", help="seeds with commas between, one pack per seed")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a parameter of bayes_means")
    options = parser.parse_args()
    pairs = [text.split("=", 1) for text in options.set]
    method = BayesMeans(**{key: parse(BayesMeans, key, value) for key, value in pairs})
    generators: list[tuple[Callable[[int], FeaturePack], str]] = [
        (thousand_classes, "given"),
        (thousand_classes, "none"),
        (no_shift, "given"),
    ]
    seeds = [int(seed) for seed in options.seeds.split(",")]
    for generate, aux in generators:
        packs = [generate(seed) for seed in seeds]
        runs = [
            run_evaluation(method, pack, aux=aux, seed=seed).report for pack, seed in zip(packs, seeds, strict=True)
        ]
        zero_shot = np.mean([run.metrics["zero_shot_acc1"] for run in runs])
        gains = [100 * run.metrics["gain"] for run in runs]
        milliseconds = np.mean([run.ms_per_sample for run in runs])
        with_aux = packs[0].aux is not None and aux == "given"
        print(
            f"{packs[0].name}, {'with' if with_aux else 'without'} aux: {np.mean(gains):+.2f} over zero-shot "
            f"{zero_shot:.2%} (worst {min(gains):+.2f}), {milliseconds:.1f} ms per sample",
            flush=True,
        )
    for extreme in (False, True):
        compare_on_streams(method, extreme, seeds)


if __name__ == "__main__":
    main()
