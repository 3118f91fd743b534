"""The methods that learn, on the embedded pair: `python benchmarks/learning.py [--shift haze:4 ... | all] ...`.

The stream is the first 1,600 embedded photographs, shifted; the shots are drawn from the other 400, shifted too. TPT
and DiffTPT, which need views, take the first so many of the stream (`--images`); moved photographs stand in for what a
diffusion model would draw. With several shifts, or several seeds of the shots, the mean gains come last; `all` are the
six kinds at the two highest severities.
"""

from __future__ import annotations

import argparse
from typing import Any

from cosmic_tta import make_method
from cosmic_tta.corruptions import CORRUPTIONS, Corruption
from cosmic_tta.demo import shifted_pack
from cosmic_tta.domains import part
from cosmic_tta.evaluate import score
from cosmic_tta.experiments.embedded import RATES, STREAM, embedded_views
from cosmic_tta.packs import FeaturePack
from cosmic_tta.towers import with_tower
from cosmic_tta.training import Course, drawn, trained

COURSES: dict[str, tuple[str, dict[str, Any]]] = {
    "coop, its own rate": ("coop", {}),
    "coop": ("coop", {"rate": RATES["coop"]}),
    "coop, a context for each class": ("coop", {"rate": RATES["coop"], "class_specific": True}),
    "cocoop": ("cocoop", {"rate": RATES["cocoop"]}),
    "tip_adapter_f": ("tip_adapter_f", {}),
}


ALL = [f"{kind}:{severity}" for kind in CORRUPTIONS for severity in (4, 5)]
Gains = dict[str, list[float]]


def show(gains: Gains, name: str, method: Any, pack: FeaturePack) -> None:
    """Run a method over a pack, print what it reached, and keep its gain."""
    report = score(method, pack, order="given").report
    found = report.metrics
    gains.setdefault(name, []).append(100 * found["gain"])
    print(
        f"{name:32} {report.n:5} images: {found['acc1']:7.2%}, zero-shot {found['zero_shot_acc1']:7.2%}, "
        f"gain {100 * found['gain']:+.2f}, {report.ms_per_sample:.2f} ms each",
        flush=True,
    )


def run(gains: Gains, shift: Corruption, given: argparse.Namespace) -> None:
    """Run all methods under one shift."""
    whole = with_tower(shifted_pack(shift, 2000))
    stream, rest = part(whole, slice(0, STREAM)), part(whole, slice(STREAM, None))
    if given.images:
        print(f"{shift}; {given.views} views")
        short = with_tower(embedded_views(given.images, given.views, shift))
        show(gains, "tpt", make_method("tpt"), short)
        if given.variants:
            show(gains, "tpt, context carried over", make_method("tpt", carry_over=True), short)
            show(gains, "difftpt, moved for drawn", make_method("difftpt"), short)
    for seed in given.seeds if given.trained else ():
        print(f"{shift}; {given.shots} shots of each class, seed {seed}")
        support = drawn(rest.support(), given.shots, seed)
        show(gains, "tip_adapter", make_method("tip_adapter", support=support), stream)
        for name, (method, settings) in COURSES.items():
            learned = trained(method, whole.task(), support, Course(**settings, seed=seed))
            show(gains, name, make_method(method, checkpoint=learned), stream)


def main() -> None:
    """Run what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shift", nargs="+", default=["haze:4"])
    parser.add_argument("--images", type=int, default=400, help="0: nothing that needs views")
    parser.add_argument("--views", type=int, default=32)
    parser.add_argument("--variants", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--trained", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--shots", type=int, default=16)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    given = parser.parse_args()
    gains: Gains = {}
    for words in ALL if given.shift == ["all"] else given.shift:
        run(gains, Corruption.parse(words, 0), given)
    for name, found in gains.items():
        if len(found) > 1:
            print(f"{name:32} mean gain of {len(found)} runs {sum(found) / len(found):+.2f}, least {min(found):+.2f}")


if __name__ == "__main__":
    main()
