from __future__ import annotations

from cosmic_tta.reporting.chart_data import Chart, Series
from cosmic_tta.reporting.plotting.chart_layout import (
    cell_text,
    heatmap_marks,
    hull_margin,
    mark_label_sides,
    marker_of,
    node_positions,
    tick_indices,
)
from cosmic_tta.reporting.plotting.palette import LIGHT
from tests.support.sample_charts import CHARTS


def test_a_series_past_the_colours_has_another_marker() -> None:
    plain, star = Series("a", [], []), Series("b", [], [], marker="*")
    assert [marker_of(plain, index) for index in (-1, 0, len(LIGHT), 2 * len(LIGHT))] == ["o", "o", "s", "^"]
    assert marker_of(star, len(LIGHT)) == "*"


def test_marks_and_nodes_follow_the_series() -> None:
    assert heatmap_marks(CHARTS["surface"]) == [(1.0, 1.0, "best")]
    assert node_positions(CHARTS["network"]).tolist() == [[0, 0], [1, 0], [0.5, 1]]


def test_the_name_of_a_mark_is_where_there_is_room() -> None:
    names = [str(index) for index in range(10)]
    positions = [(1, 5), (1, 5), (9, 9.5), (9, 0), (5, 0)]
    series = [Series("a", [column], [row]) for column, row in positions]
    chart = Chart("c", "C", "heatmap", row_names=names, column_names=names, series=series)
    sides = [("top", "right"), ("bottom", "right"), ("bottom", "left"), ("top", "left"), ("top", "right")]
    assert mark_label_sides(chart) == sides


def test_many_rows_have_few_ticks() -> None:
    assert tick_indices(5, is_surface=False) == [0, 1, 2, 3, 4]
    assert tick_indices(41, is_surface=True) == list(range(0, 41, 4))


def test_a_cell_without_a_value_has_no_text() -> None:
    assert [cell_text(value, ".1f") for value in (1.26, 0.04, -0.01, float("nan"))] == ["1.3", "", "", ""]


def test_the_margin_of_hulls_shrinks_with_the_number_of_nodes() -> None:
    assert hull_margin(1) > hull_margin(40) > hull_margin(1000) > 0
