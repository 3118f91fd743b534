"""A stream of real photographs under a shift, encoded by the embedded pair; and how accuracy went along it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from cosmic_tta.corruptions import Corruption
from cosmic_tta.datasets.embedded import photographs
from cosmic_tta.encoders import make_clip, make_encoder
from cosmic_tta.errors import InputError
from cosmic_tta.metrics import WINDOW
from cosmic_tta.originals import shift_record
from cosmic_tta.packs import FeaturePack
from cosmic_tta.pictures import open_picture
from cosmic_tta.prompts import class_texts, text_features

BATCH = 100
SIZE, FINE = (900, 480), 2  # drawn so many times as large, for smooth lines
COLOURS = ("#888888", "#e08a00", "#2a9d4a", "#1f6fd0", "#c2185b", "#7b3fa0")
Watch = Callable[[int, int, str], None]


def shifted_pack(shift: Corruption, images: int, watch: Watch = lambda *_: None) -> FeaturePack:
    """Encode the first so many embedded photographs, shifted."""
    dataset = photographs()
    if not 1 <= images <= len(dataset):
        raise InputError(f"there are {len(dataset)} embedded photographs; asked for {images}.")
    clip, aux = make_clip("mini:clip"), make_encoder("mini:dino", kind="image")
    items, rows, beside = dataset.items[:images], [], []
    for start in range(0, images, BATCH):
        shifted = [shift(open_picture(item.read()), item.key) for item in items[start : start + BATCH]]
        rows.append(clip.encode(np.stack([clip.preprocessing.pixels(picture) for picture in shifted])))
        beside.append(aux.encode(np.stack([aux.preprocessing.pixels(picture) for picture in shifted])))
        watch(start + len(shifted), images, "")
    return FeaturePack(
        name=f"{dataset.name}, {shift}",
        class_names=dataset.class_names,
        clip=np.concatenate(rows)[:, None],
        text=text_features(clip, class_texts(dataset.class_names, dataset.templates)),
        aux=np.concatenate(beside),
        labels=np.array([item.label for item in items]),
        logit_scale=clip.logit_scale,
        clip_model=clip.name,
        aux_model=aux.name,
        source=dataset.source,
        keys=tuple(item.key for item in items),
        made=shift_record(shift),
    )


def draw_curves(curves: Mapping[str, NDArray[np.float64]], title: str, file: Path) -> None:
    """Draw accuracies over time as a PNG, with Pillow alone."""
    picture = Image.new("RGB", (FINE * SIZE[0], FINE * SIZE[1]), "white")
    pen, font = ImageDraw.Draw(picture), ImageFont.load_default(FINE * 13)
    left, top, right, bottom = (FINE * edge for edge in (60, 44, SIZE[0] - 150, SIZE[1] - 56))
    count = max(len(curve) for curve in curves.values())
    begin = min(WINDOW // 4, count // 4)  # the first answers say nothing yet
    shown = np.concatenate([curve[begin:] for curve in curves.values()])
    step = 0.1 if shown.max() - shown.min() > 0.25 else 0.05
    low, high = float(np.floor(shown.min() / step) * step), float(np.ceil(shown.max() / step + 1e-9) * step)

    def across(place: float) -> float:
        return left + (right - left) * place / max(1, count - 1)

    def above(value: float) -> float:
        return bottom - (bottom - top) * (value - low) / (high - low)

    def write(x: float, y: float, text: str, colour: str = "black", anchor: str = "lm") -> None:
        pen.text((x, y), text, fill=colour, font=font, anchor=anchor)

    write(left, FINE * 20, title)
    for value in np.arange(low, high + step / 2, step):
        pen.line([across(0), above(value), across(count - 1), above(value)], fill="#dddddd", width=FINE)
        write(left - FINE * 8, above(value), f"{value:.0%}", anchor="rm")
    for place in np.linspace(0, count, 5, dtype=int):
        write(across(place), bottom + FINE * 14, f"{place:,}", anchor="mm")
    write(left, bottom + FINE * 38, f"photographs seen; a point is the accuracy of the last {WINDOW}")
    taken: list[float] = []
    for (name, curve), colour in zip(curves.items(), COLOURS, strict=False):
        points = [(across(begin + place), above(value)) for place, value in enumerate(curve[begin:])]
        pen.line(points, fill=colour, width=FINE * 2, joint="curve")
        height = above(curve[-1])
        while any(abs(height - other) < FINE * 15 for other in taken):
            height += FINE
        taken.append(height)
        write(right + FINE * 8, height, f"{name} {curve[-1]:.0%}", colour)
    picture.resize(SIZE, Image.Resampling.LANCZOS).save(file, "PNG")
