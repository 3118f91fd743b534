from __future__ import annotations

from importlib.resources import files

from cosmic_tta.reporting.chart_data import Series
from cosmic_tta.reporting.plotting.palette import DARK, LIGHT, THEMES, colour_indices


def test_a_series_has_the_colour_it_asks_for_or_a_free_one() -> None:
    series = [Series(name, [], [], colour=colour) for name, colour in (("a", None), ("b", 0), ("c", -1), ("d", None))]
    assert colour_indices(series) == [1, 0, -1, 2]


def test_no_colour_is_there_twice() -> None:
    assert len(set(LIGHT)) == len(set(DARK)) == len(LIGHT) == len(DARK)


def test_the_page_s_style_has_the_same_colours() -> None:
    css = (files("cosmic_tta") / "reporting" / "plotting" / "static" / "page.css").read_text(encoding="utf-8")
    for theme in THEMES.values():
        for name, colour in theme.items():
            assert name == "grey" or f"--{name}: {colour};" in css
