from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from cosmic_tta.reporting.chart_data import Chart, Series
from cosmic_tta.reporting.plotting.palette import LIGHT, THEMES
from cosmic_tta.reporting.plotting.plotly_backend import plotly_figure
from tests.support.sample_charts import CHARTS

DRAWN = [name for name in CHARTS if name != "images"]


@pytest.mark.parametrize("name", DRAWN)
def test_a_figure_is_plain_json_and_its_colours_are_known(name: str) -> None:
    figure = plotly_figure(CHARTS[name])
    assert json.loads(json.dumps(figure, allow_nan=False)) == figure
    assert figure["height"] > 0
    placeholders = re.findall(r'"@(\w+)(?:/\d+)?"', json.dumps(figure))
    assert placeholders
    assert set(placeholders) <= {str(index) for index in range(len(LIGHT))} | set(THEMES["light"])


def test_a_line_has_its_band_and_a_gap_for_an_absent_value() -> None:
    low, high, line, reference = plotly_figure(CHARTS["lines"])["data"]
    assert (low["y"], high["y"]) == ([0.9, 1.8, None], [1.1, 2.2, None])
    assert line["y"] == [1.0, 2.0, None]
    assert reference["line"]["dash"] == "dash"


def test_bars_are_horizontal_with_the_first_at_the_top() -> None:
    chart = replace(CHARTS["bars"], x_title="methods", y_title="accuracy")
    figure = plotly_figure(chart)
    assert [trace["x"] for trace in figure["data"]] == [[1.0, 2.0], [3.0, 1.0]]
    assert {trace["orientation"] for trace in figure["data"]} == {"h"}
    assert figure["layout"]["yaxis"]["title"]["text"] == "methods"
    assert figure["layout"]["yaxis"]["autorange"] == "reversed"


def test_labelled_series_have_no_legend() -> None:
    figure = plotly_figure(CHARTS["points"])
    assert not figure["layout"]["showlegend"]
    assert [label["text"] for label in figure["layout"]["annotations"]] == ["a", "b"]
    assert figure["data"][1]["mode"] == "markers+text"
    assert not figure["layout"]["xaxis"]["showticklabels"]


def test_a_surface_has_its_marks() -> None:
    surface, marks = plotly_figure(CHARTS["surface"])["data"]
    assert surface["z"] == [[0.0, 1.0], [2.0, 3.0]]
    assert (marks["x"], marks["y"], marks["text"]) == ([1.0], [1.0], ["best"])
    (matrix,) = plotly_figure(CHARTS["heatmap"])["data"]
    assert matrix["text"] == [["", "1.0"], ["2.0", ""]]


def test_the_links_of_a_network_are_one_trace() -> None:
    outline, links, *nodes = plotly_figure(CHARTS["network"])["data"]
    assert outline["fill"] == "toself"
    assert links["x"] == [0.0, 1.0, None, 1.0, 0.5, None]
    assert [trace["text"] for trace in nodes] == [["a", "b"], ["c"]]


def test_tags_in_texts_are_escaped_but_not_those_of_templates() -> None:
    chart = Chart("c", "C", "lines", "<b>x", series=[Series("<i>a", [1], [1], point_texts=["<u>"])])
    figure = plotly_figure(chart)
    assert figure["layout"]["xaxis"]["title"]["text"] == "&lt;b&gt;x"
    (trace,) = figure["data"]
    assert (trace["name"], trace["text"]) == ("&lt;i&gt;a", ["&lt;u&gt;"])
    assert trace["hovertemplate"].startswith("%{text}<extra>")
