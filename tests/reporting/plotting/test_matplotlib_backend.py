from __future__ import annotations

from typing import Any, cast

import matplotlib as mpl
import pytest

from cosmic_tta.reporting.plotting.matplotlib_backend import STYLE, draw_chart
from tests.support.sample_charts import CHARTS


@pytest.mark.parametrize("name", [name for name in CHARTS if name != "images"])
def test_a_chart_has_its_titles_and_its_note(name: str) -> None:
    chart = CHARTS[name]
    with mpl.rc_context(cast(Any, dict(STYLE))):
        figure = draw_chart(chart)
    axes = figure.axes[0]
    assert axes.get_title(loc="left") == chart.title
    titles = (chart.y_title, chart.x_title) if chart.kind == "bars" else (chart.x_title, chart.y_title)
    assert (axes.get_xlabel(), axes.get_ylabel()) == titles
    assert figure.get_supxlabel() == chart.note


def test_ticks_without_a_meaning_are_hidden() -> None:
    for name in ("points", "network"):
        axes = draw_chart(CHARTS[name]).axes[0]
        assert len(axes.get_xticks()) == len(axes.get_yticks()) == 0
    assert len(draw_chart(CHARTS["lines"]).axes[0].get_xticks())
