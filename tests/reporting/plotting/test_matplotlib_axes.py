from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from cosmic_tta.reporting.chart_data import Chart, Series
from cosmic_tta.reporting.plotting.matplotlib_axes import draw_bars, draw_lines, draw_network, draw_points
from cosmic_tta.reporting.plotting.palette import LIGHT
from tests.support.sample_charts import CHARTS


def drawn(draw: Callable[[Axes, Chart], None], chart: Chart) -> Axes:
    axes = Figure().add_subplot()
    draw(axes, chart)
    return axes


def test_lines_are_labelled_at_their_ends_where_these_are_aligned() -> None:
    series = [Series("a", [1, 2], [1, 2], [0.1, 0.1]), Series("b", [1, 2], [2, 2.01])]
    axes = drawn(draw_lines, Chart("c", "C", "lines", series=series))
    assert [text.get_text() for text in axes.texts] == ["a", "b"]
    assert axes.get_legend() is None
    assert len(axes.collections) == 1  # one band
    assert [to_hex(line.get_color()) for line in axes.lines] == list(LIGHT[:2])


def test_lines_with_different_ends_have_a_legend() -> None:
    axes = drawn(draw_lines, CHARTS["lines"])
    legend = axes.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["a", "b"]
    assert [line.get_linestyle() for line in axes.lines] == ["-", "--"]


def test_bars_show_their_values_and_names() -> None:
    axes = drawn(draw_bars, CHARTS["bars"])
    assert [bar.get_width() for bar in axes.patches] == [1, 2, 3, 1]  # type: ignore[attr-defined]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["p", "q"]
    assert [text.get_text() for text in axes.texts] == ["1", "2", "3", "1"]
    low, high = axes.get_ylim()
    assert low > high  # the first bar is at the top


def test_points_have_their_texts_and_the_names_of_their_series() -> None:
    axes = drawn(draw_points, CHARTS["points"])
    assert [text.get_text() for text in axes.texts] == ["u", "v", "a", "b"]
    assert [len(np.asarray(points.get_offsets())) for points in axes.collections] == [2, 1]
    assert axes.get_legend() is None


@pytest.mark.parametrize("count", [1, 3])
def test_several_series_of_points_have_a_legend(count: int) -> None:
    series = [Series(str(number), [number], [0]) for number in range(count)]
    axes = drawn(draw_points, Chart("c", "C", "points", series=series))
    assert (axes.get_legend() is not None) == (count > 1)


def test_a_network_has_nodes_links_and_outlines() -> None:
    axes = drawn(draw_network, CHARTS["network"])
    assert [text.get_text() for text in axes.texts] == ["a", "b", "c"]
    assert len(axes.lines) == 1 + 2  # an outline and two links
    assert len(axes.patches) == 1
