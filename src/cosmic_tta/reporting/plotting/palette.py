"""Colours that people with any colour vision can tell apart, on white and on black."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cosmic_tta.reporting.chart_data import Series

LIGHT = ("#0072b2", "#d55e00", "#009e73", "#aa4499", "#c28200", "#332288", "#4a9fd4", "#882255")
DARK = ("#56b4e9", "#f5793a", "#2fc79a", "#e08bc5", "#efc14a", "#a9a1f0", "#9ad6f7", "#e8799f")
MARKERS = ("o", "s", "^", "D", "x")  # a series beyond the colours takes the next marker
GREY = -1

# Colours of everything that is not data, by theme. static/page.css has the same.
THEMES: Mapping[str, Mapping[str, str]] = {
    "light": {"text": "#1d2430", "muted": "#5c6675", "border": "#e3e7ec", "surface": "#ffffff", "grey": "#8a929d"},
    "dark": {"text": "#e8ebf0", "muted": "#a3adba", "border": "#2c3440", "surface": "#171c23", "grey": "#98a1ad"},
}
# From low to high. The surface scale avoids the darkest colours, which are lost on a dark page.
HEATMAP_SCALE = ("#f4f7fb", "#c9dcee", "#8fbcdc", "#4a94c4", "#1c6ca8", "#0b4879", "#062a4d")
SURFACE_SCALE = ("#3b2a63", "#3f4f8f", "#2f7291", "#27918c", "#45b07a", "#95cc58", "#f2e051")


def colour_indices(series: Sequence[Series]) -> list[int]:
    """Return the palette index of each series: its own `colour`, else the next index that no series asks for."""
    requested = {one.colour for one in series if one.colour is not None}
    free = iter(index for index in range(len(series) + len(requested) + 1) if index not in requested)
    return [next(free) if one.colour is None else one.colour for one in series]


def is_dark(colour: str) -> bool:
    """Return whether white text is easier to read on a colour than black text.

    >>> is_dark("#062a4d"), is_dark("#f2e051")
    (True, False)
    """
    red, green, blue = (int(colour[digit : digit + 2], 16) for digit in (1, 3, 5))
    return 0.299 * red + 0.587 * green + 0.114 * blue < 140
