"""Charts as plotly draws them in a browser: plain values for JSON, colours as names that the page's theme fills in.

`@3` is the fourth colour, `@3/20` the same at a fifth of its strength; `@ink`, `@soft`, `@rule`, `@paper` and `@grey`
are what is not data. So one description serves light, dark and print.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosmic_tta.charts import Chart, Series
from cosmic_tta.drawing.canvas import cell_text, heat_marks, hull_room, mark_of, node_places
from cosmic_tta.drawing.palette import GREY, HEAT, LIGHT, SURFACE, colour_places
from cosmic_tta.drawing.shapes import surround

SYMBOLS = {"o": "circle", "x": "x-thin", "*": "star", "s": "square", "^": "triangle-up", "D": "diamond"}
Trace = dict[str, Any]


def plot(chart: Chart) -> dict[str, Any]:
    """Return a chart's traces, layout and height; `pictures` are not for plotly."""
    layout: dict[str, Any] = {
        "margin": {"l": 8, "r": 8, "t": 8, "b": 8},
        "xaxis": _axis(chart.x_title, chart.x_range),
        "yaxis": _axis(chart.y_title, chart.y_range),
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"color": "@soft", "size": 13, "family": "system-ui, sans-serif"},
        "hoverlabel": {"bgcolor": "@paper", "bordercolor": "@rule", "font": {"color": "@ink"}},
        "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0, "font": {"color": "@ink"}},
        "showlegend": len(chart.series) > 1 and not chart.named,
    }
    traces = KINDS[chart.kind](chart, layout)
    if chart.bare or chart.kind == "network":
        for axis in ("xaxis", "yaxis"):
            layout[axis] |= {
                "showticklabels": False,
                "showgrid": False,
                "ticks": "",
                "showline": False,
                "zeroline": False,
            }
    if chart.square or chart.kind == "network":
        layout["yaxis"] |= {"scaleanchor": "x", "constrain": "domain"}
        layout["xaxis"] |= {"constrain": "domain"}
    return {"data": _escaped(traces), "layout": _escaped(layout), "height": _height(chart)}


def _escaped(value: Any, key: str = "") -> Any:
    """Have words shown as they are: plotly would read tags in them. Its templates are ours, and stay."""
    if isinstance(value, dict):
        return {name: _escaped(one, name) for name, one in value.items()}
    if isinstance(value, list):
        return [_escaped(one, key) for one in value]
    return escape(value, quote=False) if isinstance(value, str) and not key.endswith("template") else value


def _axis(title: str, span: tuple[float, float] | None) -> dict[str, Any]:
    axis: dict[str, Any] = {
        "title": {"text": title, "standoff": 10},
        "automargin": True,
        "gridcolor": "@rule",
        "linecolor": "@rule",
        "zeroline": False,
        "ticks": "",
    }
    return axis | ({"range": list(span)} if span else {})


def _height(chart: Chart) -> int:
    if chart.kind == "bars":
        return 100 + 19 * sum(len(series.y) for series in chart.series) + 10 * len(chart.series[0].y)
    if chart.kind == "heat":
        return 520 if chart.series else int(np.clip(160 + 22 * len(chart.cells), 300, 760))
    return {"network": 620, "points": 520}.get(chart.kind, 480 if chart.square else 400)


def _ink(place: int, strength: int | None = None) -> str:
    name = "@grey" if place == GREY else f"@{place % len(LIGHT)}"
    return name if strength is None else f"{name}/{strength}"


def _number(value: Any) -> float | None:
    """Return a number as JSON has it: what is not finite is absent."""
    return float(f"{float(value):.6g}") if math.isfinite(float(value)) else None


def _values(values: Sequence[Any]) -> list[Any]:
    return [value if isinstance(value, str) else _number(value) for value in values]


def _lines(chart: Chart, layout: dict[str, Any]) -> list[Trace]:
    traces: list[Trace] = []
    for series, place in zip(chart.series, colour_places(chart.series), strict=True):
        x, y = _values(series.x), _values(series.y)
        if len(series.spread):
            low = [_number(a - b) for a, b in zip(series.y, series.spread, strict=True)]
            high = [_number(a + b) for a, b in zip(series.y, series.spread, strict=True)]
            band = {"mode": "lines", "line": {"width": 0}, "hoverinfo": "skip", "showlegend": False}
            band |= {"type": "scatter", "legendgroup": series.name}
            traces.append(band | {"x": x, "y": low})
            traces.append(band | {"x": x, "y": high, "fill": "tonexty", "fillcolor": _ink(place, 18)})
        line: dict[str, Any] = {"color": _ink(place), "width": 2}
        marked = len(x) <= 24 and not series.dashed
        trace = {
            "type": "scatter",
            "mode": "lines+markers" if marked else "lines",
            "name": series.name,
            "x": x,
            "y": y,
            "line": line | ({"dash": "dash"} if series.dashed else {}),
            "legendgroup": series.name,
        }
        if len(series.words):
            trace |= {"text": list(series.words), "hovertemplate": "%{text}<extra>%{fullData.name}</extra>"}
        if marked:
            trace["marker"] = {"symbol": SYMBOLS.get(series.mark, "circle"), "size": 7, "color": _ink(place)}
        traces.append(trace)
    layout["hovermode"] = "x unified" if not chart.square else "closest"
    return traces


def _bars(chart: Chart, layout: dict[str, Any]) -> list[Trace]:
    traces = []
    for series, place in zip(chart.series, colour_places(chart.series), strict=True):
        words = list(series.words) or ["" if math.isnan(value) else f"{value:.4g}" for value in series.y]
        trace: Trace = {
            "type": "bar",
            "orientation": "h",
            "name": series.name,
            "y": [str(name) for name in series.x],
            "x": _values(series.y),
            "marker": {"color": _ink(place)},
            "text": words,
            "textposition": "outside",
            "cliponaxis": False,
            "textfont": {"color": "@soft", "size": 12},
            "hovertemplate": "%{y}: %{text}<extra></extra>",
        }
        if len(series.spread):
            trace["error_x"] = {"type": "data", "array": _values(series.spread), "color": "@soft", "thickness": 1}
            trace["textposition"] = "none"
        traces.append(trace)
    for axis, told in (("xaxis", chart.y_title), ("yaxis", chart.x_title)):
        layout[axis] = _axis(told, None)
    layout["yaxis"] |= {"autorange": "reversed", "showgrid": False, "type": "category"}
    layout["bargap"] = 0.25
    layout["margin"] = layout["margin"] | {"r": 60}
    layout["hovermode"] = "closest"
    return traces


def _points(chart: Chart, layout: dict[str, Any]) -> list[Trace]:
    traces = [_outline(np.array(corners), number) for number, corners in enumerate(chart.outlines)]
    for number, (series, place) in enumerate(zip(chart.series, colour_places(chart.series), strict=True)):
        mark = mark_of(series, number if series.colour is None else place)
        marker: dict[str, Any] = {"color": _ink(place), "symbol": SYMBOLS[mark], "size": 17 if mark == "*" else 8}
        marker["line"] = {"color": _ink(place) if mark == "x" else "@paper", "width": 2 if mark == "x" else 0.8}
        words = list(series.words) or [series.name] * len(series.x)
        traces.append(
            {
                "type": "scatter",
                "mode": "markers+text" if series.told else "markers",
                "name": series.name,
                "textposition": "top center",
                "textfont": {"color": "@ink", "size": 11},
                "x": _values(series.x),
                "y": _values(series.y),
                "marker": marker,
                "text": words,
                "hovertemplate": "%{text}<extra></extra>",
            }
        )
    if chart.named:
        layout["annotations"] = [
            _name(series, place)
            for series, place in zip(chart.series, colour_places(chart.series), strict=True)
            if series.name and len(series.x)
        ]
    layout["hovermode"] = "closest"
    return traces


def _name(series: Series, place: int) -> dict[str, Any]:
    x, y = (float(np.median(np.asarray(values, float))) for values in (series.x, series.y))
    font = {"color": _ink(place), "size": 12, "weight": 700}
    return {
        "x": _number(x),
        "y": _number(y),
        "text": series.name,
        "showarrow": False,
        "bgcolor": "@paper/75",
        "font": font,
    }


def _heat(chart: Chart, layout: dict[str, Any]) -> list[Trace]:
    scale = SURFACE if chart.series else HEAT
    columns, rows = ([str(name) for name in names] for names in (chart.column_names, chart.row_names))
    trace: Trace = {
        "type": "heatmap",
        "z": [_values(row) for row in chart.cells],
        "x": list(range(len(columns))),
        "y": list(range(len(rows))),
        "colorscale": [[place / (len(scale) - 1), colour] for place, colour in enumerate(scale)],
        "xgap": 0 if chart.series else 1,
        "ygap": 0 if chart.series else 1,
        "customdata": [[[row, column] for column in columns] for row in rows],
        "hovertemplate": f"{escape(chart.y_title)} %{{customdata[0]}}<br>{escape(chart.x_title)} "
        f"%{{customdata[1]}}<br>{escape(chart.z_title)} %{{z:.4g}}<extra></extra>",
        "colorbar": {"title": {"text": chart.z_title, "side": "right"}, "thickness": 12, "outlinewidth": 0, "len": 0.9},
    }
    if chart.cell_format:
        text = [[cell_text(value, chart.cell_format) for value in row] for row in chart.cells]
        trace |= {"text": text, "texttemplate": "%{text}", "textfont": {"size": 11 if len(rows) < 16 else 9}}
    for axis, names in (("xaxis", columns), ("yaxis", rows)):
        every = max(1, len(names) // 10 if chart.series else len(names) // 40)
        places = list(range(0, len(names), every))
        layout[axis] |= {"tickvals": places, "ticktext": [names[place] for place in places], "showgrid": False}
    layout["xaxis"] |= {"tickangle": 0 if chart.series or max(map(len, columns), default=0) <= 3 else -50}
    traces = [trace]
    marks = heat_marks(chart)
    if marks:
        words = [words for *_, words in marks]
        side = ["left" if x > 0.6 * len(columns) else "right" for x, *_ in marks]
        height = ["top" if y < 0.9 * len(rows) and not place % 2 else "bottom" for place, (_, y, _) in enumerate(marks)]
        traces.append(
            {
                "type": "scatter",
                "mode": "markers+text",
                "x": [x for x, *_ in marks],
                "y": [y for _, y, _ in marks],
                "text": words,
                "showlegend": False,
                "hoverinfo": "text",
                "textposition": [f"{a} {b}" for a, b in zip(height, side, strict=True)],
                "textfont": {"color": "#ffffff", "size": 13, "weight": 700, "shadow": "0 0 4px #000,0 0 4px #000"},
                "marker": {"color": "#ffffff", "size": 11, "line": {"color": "#111111", "width": 2}},
            }
        )
        layout["xaxis"] |= {"range": [-0.5, len(columns) - 0.5]}
        layout["yaxis"] |= {"range": [-0.5, len(rows) - 0.5]}
    else:
        layout["yaxis"] |= {"autorange": "reversed"}
    layout["showlegend"] = False
    return traces


def _outline(corners: NDArray[np.float64], place: int) -> Trace:
    return {
        "type": "scatter",
        "mode": "lines",
        "x": _values(corners[:, 0].tolist()),
        "y": _values(corners[:, 1].tolist()),
        "fill": "toself",
        "fillcolor": _ink(place, 14),
        "line": {"color": _ink(place, 55), "width": 1},
        "hoverinfo": "skip",
        "showlegend": False,
    }


def _network(chart: Chart, layout: dict[str, Any]) -> list[Trace]:
    places, traces = node_places(chart), []
    for number, group in enumerate(chart.groups):
        traces.append(_outline(surround(places[list(group)], hull_room(len(places))), number))
    x: list[Any] = []
    y: list[Any] = []
    for a, b in chart.links:
        x += [_number(places[a, 0]), _number(places[b, 0]), None]
        y += [_number(places[a, 1]), _number(places[b, 1]), None]
    traces.append(
        {
            "type": "scatter",
            "mode": "lines",
            "x": x,
            "y": y,
            "line": {"color": "@grey/60", "width": 1},
            "hoverinfo": "skip",
            "showlegend": False,
        }
    )
    for series, place in zip(chart.series, colour_places(chart.series), strict=True):
        traces.append(
            {
                "type": "scatter",
                "mode": "markers+text" if len(places) <= 60 else "markers",
                "name": series.name,
                "x": _values(series.x),
                "y": _values(series.y),
                "text": list(series.words),
                "textposition": "bottom center",
                "textfont": {"color": "@ink", "size": 11},
                "hovertemplate": "%{text}<extra>%{fullData.name}</extra>",
                "marker": {
                    "color": _ink(place),
                    "size": 11,
                    "symbol": SYMBOLS[series.mark],
                    "line": {"color": "@paper", "width": 1},
                },
            }
        )
    layout["hovermode"] = "closest"
    return traces


KINDS: Mapping[str, Callable[[Chart, dict[str, Any]], list[Trace]]] = {
    "lines": _lines,
    "bars": _bars,
    "points": _points,
    "heat": _heat,
    "network": _network,
}
