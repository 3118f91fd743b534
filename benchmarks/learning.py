"""The methods that learn, on the embedded pair: `python benchmarks/learning.py [--shift haze:4] [--images 400] ...`.

The stream is the first 1,600 embedded photographs, shifted; the shots are drawn from the other 400, shifted too. TPT
and DiffTPT, which need views, take the first so many of the stream (`--images`); moved photographs stand in for what a
diffusion model would draw.
"""

from __future__ import annotations

import argparse
from typing import Any

from cosmic_tta import make_method
from cosmic_tta.corruptions import Corruption
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


def show(name: str, method: Any, pack: FeaturePack) -> None:
    report = score(method, pack, order="given").report
    found = report.metrics
    print(
        f"{name:32} {report.n:5} images: {found['acc1']:7.2%}, zero-shot {found['zero_shot_acc1']:7.2%}, "
        f"gain {100 * found['gain']:+.2f}, {report.ms_per_sample:.2f} ms each",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shift", default="haze:4")
    parser.add_argument("--images", type=int, default=400)
    parser.add_argument("--views", type=int, default=32)
    parser.add_argument("--trained", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--shots", type=int, default=16)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    shift = Corruption.parse(given.shift, given.seed)
    whole = with_tower(shifted_pack(shift, 2000))
    stream, rest = part(whole, slice(0, STREAM)), part(whole, slice(STREAM, None))
    print(f"{shift}; {given.shots} shots of each class, seed {given.seed}; {given.views} views")
    if given.images:
        short = with_tower(embedded_views(given.images, given.views, shift))
        show("tpt", make_method("tpt"), short)
        show("tpt, context carried over", make_method("tpt", carry_over=True), short)
        show("difftpt, moved for drawn", make_method("difftpt"), short)
    if not given.trained:
        return
    support = drawn(rest.support(), given.shots, given.seed)
    show("tip_adapter", make_method("tip_adapter", support=support), stream)
    for name, (method, settings) in COURSES.items():
        learned = trained(method, whole.task(), support, Course(**settings, seed=given.seed))
        show(name, make_method(method, checkpoint=learned), stream)


if __name__ == "__main__":
    main()
