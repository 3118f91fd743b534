from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from cosmic_tta.reporting.accuracy_plot import COLOURS, SIZE, draw_curves


@pytest.mark.parametrize("curve", [np.ones(1), np.zeros(3), np.linspace(0, 1, 1000)])
def test_curves_of_any_length_are_drawn(curve: np.ndarray[tuple[int], np.dtype[np.float64]], tmp_path: Path) -> None:
    draw_curves({"a": curve, "b": curve}, "title", tmp_path / "curves.png")
    with Image.open(tmp_path / "curves.png") as image:
        assert image.size == SIZE
        assert len(image.getcolors(1 << 20) or []) > 5


def test_every_curve_has_its_colour(tmp_path: Path) -> None:
    draw_curves({"a": np.full(400, 0.5), "b": np.full(400, 0.7)}, "title", tmp_path / "curves.png")
    with Image.open(tmp_path / "curves.png") as image:
        colours = {colour for _, colour in image.getcolors(1 << 20) or []}
    for name in COLOURS[:2]:
        assert tuple(int(name[digit : digit + 2], 16) for digit in (1, 3, 5)) in colours
