"""Colours that people with any colour vision can tell apart, on white and on black."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cosmic_tta.charts import Series

LIGHT = ("#0072b2", "#d55e00", "#009e73", "#aa4499", "#c28200", "#332288", "#4a9fd4", "#882255")
DARK = ("#56b4e9", "#f5793a", "#2fc79a", "#e08bc5", "#efc14a", "#a9a1f0", "#9ad6f7", "#e8799f")
MARKS = ("o", "s", "^", "D", "x")  # a class beyond the colours takes the next mark
GREY = -1

# What is not data, by theme. The page's style has the same inks.
INKS: Mapping[str, Mapping[str, str]] = {
    "light": {"ink": "#1d2430", "soft": "#5c6675", "rule": "#e3e7ec", "paper": "#ffffff", "grey": "#8a929d"},
    "dark": {"ink": "#e8ebf0", "soft": "#a3adba", "rule": "#2c3440", "paper": "#171c23", "grey": "#98a1ad"},
}
# From few to many: viridis without its darkest end, which would be lost on a dark page.
HEAT = ("#f4f7fb", "#c9dcee", "#8fbcdc", "#4a94c4", "#1c6ca8", "#0b4879", "#062a4d")
SURFACE = ("#3b2a63", "#3f4f8f", "#2f7291", "#27918c", "#45b07a", "#95cc58", "#f2e051")


def colour_places(series: Sequence[Series]) -> list[int]:
    """Return each series' place among the colours: its own wish, else the next that nobody wished for."""
    wished = {one.colour for one in series if one.colour is not None}
    free = iter(place for place in range(len(series) + len(wished) + 1) if place not in wished)
    return [next(free) if one.colour is None else one.colour for one in series]


def is_dark(colour: str) -> bool:
    """Whether white is read better than black on a colour.

    >>> is_dark("#062a4d"), is_dark("#f2e051")
    (True, False)
    """
    red, green, blue = (int(colour[place : place + 2], 16) for place in (1, 3, 5))
    return 0.299 * red + 0.587 * green + 0.114 * blue < 140
