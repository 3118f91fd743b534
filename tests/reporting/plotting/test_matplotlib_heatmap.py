from __future__ import annotations

from dataclasses import replace

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cosmic_tta.reporting.chart_data import Chart
from cosmic_tta.reporting.plotting.matplotlib_heatmap import draw_heatmap
from tests.support.sample_charts import CHARTS


def drawn(chart: Chart) -> Axes:
    axes = Figure().add_subplot()
    draw_heatmap(axes, chart)
    return axes


def test_a_matrix_has_names_and_numbers_with_the_first_row_at_the_top() -> None:
    axes = drawn(CHARTS["heatmap"])
    assert [text.get_text() for text in axes.texts] == ["1.0", "2.0"]  # neither zero nor an absent value
    assert [label.get_text() for label in axes.get_xticklabels()] == ["c", "d"]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["a", "b"]
    low, high = axes.get_ylim()
    assert low > high


def test_long_column_names_are_rotated() -> None:
    axes = drawn(replace(CHARTS["heatmap"], column_names=["aeroplane", "bird"]))
    assert {label.get_rotation() for label in axes.get_xticklabels()} == {55}
    assert {label.get_rotation() for label in drawn(CHARTS["heatmap"]).get_xticklabels()} == {0}


def test_a_surface_has_its_marks_and_the_first_row_at_the_bottom() -> None:
    axes = drawn(CHARTS["surface"])
    assert [text.get_text() for text in axes.texts] == ["best"]
    (mark,) = axes.lines
    assert (list(mark.get_xdata()), list(mark.get_ydata())) == ([1], [1])  # type: ignore[arg-type]
    low, high = axes.get_ylim()
    assert low < high
