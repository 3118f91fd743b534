"""Evaluate the methods that learn prompts or adapters on the embedded photographs.

    python benchmarks/learning.py [--shift haze:4 ... | all] [--images 400] [--shots 16] [--seeds 0 ...]

The stream is the first 1,600 photographs with a corruption. The shots come from the other 400, with the same one. TPT
and DiffTPT need views and run on the first `--images` of the stream. DiffTPT gets augmented photographs in place of
generated images. `--shift all` runs every corruption at severities 4 and 5. Several runs end with their mean gains.
"""

from __future__ import annotations

import argparse
from typing import Any

from cosmic_tta import make_method
from cosmic_tta.data.images.corrupt import CORRUPTIONS, Corruption
from cosmic_tta.evaluation.evaluator import run_evaluation
from cosmic_tta.features.embedded_pack import shifted_pack
from cosmic_tta.features.pack import FeaturePack
from cosmic_tta.features.pack_ops import subset
from cosmic_tta.features.text_towers import attach_tower
from cosmic_tta.reporting.paper.embedded_packs import RATES, STREAM_IMAGES, embedded_views
from cosmic_tta.training.trainer import TrainingConfig, draw_shots, train_to_end

TRAININGS: dict[str, tuple[str, dict[str, Any]]] = {
    "coop, default rate": ("coop", {}),
    "coop": ("coop", {"rate": RATES["coop"]}),
    "coop, one context per class": ("coop", {"rate": RATES["coop"], "class_specific": True}),
    "cocoop": ("cocoop", {"rate": RATES["cocoop"]}),
    "tip_adapter_f": ("tip_adapter_f", {}),
}
ALL_SHIFTS = [f"{kind}:{severity}" for kind in CORRUPTIONS for severity in (4, 5)]
Gains = dict[str, list[float]]


def evaluate_and_print(gains: Gains, name: str, method: Any, pack: FeaturePack) -> None:
    """Evaluate a method on a pack, print its accuracy, and append its gain to `gains`."""
    report = run_evaluation(method, pack, order="given").report
    metrics = report.metrics
    gains.setdefault(name, []).append(100 * metrics["gain"])
    print(
        f"{name:32} {report.n:5} images: {metrics['acc1']:7.2%}, zero-shot {metrics['zero_shot_acc1']:7.2%}, "
        f"gain {100 * metrics['gain']:+.2f}, {report.ms_per_sample:.2f} ms per image",
        flush=True,
    )


def run_shift(gains: Gains, shift: Corruption, options: argparse.Namespace) -> None:
    """Run all methods with one corruption."""
    whole = attach_tower(shifted_pack(shift, 2000))
    stream, rest = subset(whole, slice(0, STREAM_IMAGES)), subset(whole, slice(STREAM_IMAGES, None))
    if options.images:
        print(f"{shift}; {options.views} views")
        short = attach_tower(embedded_views(options.images, options.views, shift))
        evaluate_and_print(gains, "tpt", make_method("tpt"), short)
        if options.variants:
            evaluate_and_print(gains, "tpt, context kept between images", make_method("tpt", carry_over=True), short)
            evaluate_and_print(gains, "difftpt, augmented views", make_method("difftpt"), short)
    for seed in options.seeds if options.trained else ():
        print(f"{shift}; {options.shots} shots per class, seed {seed}")
        support = draw_shots(rest.support(), options.shots, seed)
        evaluate_and_print(gains, "tip_adapter", make_method("tip_adapter", support=support), stream)
        for name, (method, settings) in TRAININGS.items():
            learned = train_to_end(method, whole.task(), support, TrainingConfig(**settings, seed=seed))
            evaluate_and_print(gains, name, make_method(method, checkpoint=learned), stream)


def main() -> None:
    """Run what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shift", nargs="+", default=["haze:4"])
    parser.add_argument("--images", type=int, default=400, help="images for TPT and DiffTPT; 0 leaves them out")
    parser.add_argument("--views", type=int, default=32)
    parser.add_argument("--variants", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--trained", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--shots", type=int, default=16)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    options = parser.parse_args()
    gains: Gains = {}
    for name in ALL_SHIFTS if options.shift == ["all"] else options.shift:
        run_shift(gains, Corruption.parse(name, 0), options)
    for name, found in gains.items():
        if len(found) > 1:
            print(f"{name:32} mean gain of {len(found)} runs {sum(found) / len(found):+.2f}, least {min(found):+.2f}")


if __name__ == "__main__":
    main()
