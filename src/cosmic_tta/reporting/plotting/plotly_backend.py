"""A chart as plotly traces and layout: plain values for JSON.

Colours are placeholders that the page replaces by those of its theme, so one description serves light, dark and
print. `@3` is the fourth colour of the palette, `@3/20` the same with an opacity of 20 %. `@text`, `@muted`,
`@border`, `@surface` and `@grey` are the colours of everything that is not data.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
from cosmic_tta.reporting.plotting.geometry import rounded_hull
from cosmic_tta.reporting.plotting.palette import GREY, HEATMAP_SCALE, LIGHT, SURFACE_SCALE, colour_indices

SYMBOLS = {"o": "circle", "x": "x-thin", "*": "star", "s": "square", "^": "triangle-up", "D": "diamond"}
MAX_MARKED_POINTS = 24  # a longer line has no markers
MAX_LABELLED_NODES = 60
Trace = dict[str, Any]
Layout = dict[str, Any]


def plotly_figure(chart: Chart) -> dict[str, Any]:
    """Return the traces (`data`), the layout and the height of a chart; plotly does not draw the kind `images`."""
    layout: Layout = {
        "margin": {"l": 8, "r": 8, "t": 8, "b": 8},
        "xaxis": _axis(chart.x_title, chart.x_range),
        "yaxis": _axis(chart.y_title, chart.y_range),
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"color": "@muted", "size": 13, "family": "system-ui, sans-serif"},
        "hoverlabel": {"bgcolor": "@surface", "bordercolor": "@border", "font": {"color": "@text"}},
        "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0, "font": {"color": "@text"}},
        "showlegend": len(chart.series) > 1 and not chart.label_series,
    }
    traces = TRACES_BY_KIND[chart.kind](chart, layout)
    if chart.hide_ticks or chart.kind == "network":
        for axis in ("xaxis", "yaxis"):
            layout[axis] |= {
                "showticklabels": False,
                "showgrid": False,
                "ticks": "",
                "showline": False,
                "zeroline": False,
            }
    if chart.equal_axes or chart.kind == "network":
        layout["yaxis"] |= {"scaleanchor": "x", "constrain": "domain"}
        layout["xaxis"] |= {"constrain": "domain"}
    return {"data": _escape_texts(traces), "layout": _escape_texts(layout), "height": _height(chart)}


def _escape_texts(value: Any, key: str = "") -> Any:
    """Escape every text except templates: plotly reads tags in texts."""
    if isinstance(value, dict):
        return {name: _escape_texts(item, name) for name, item in value.items()}
    if isinstance(value, list):
        return [_escape_texts(item, key) for item in value]
    return escape(value, quote=False) if isinstance(value, str) and not key.endswith("template") else value


def _axis(title: str, limits: tuple[float, float] | None) -> dict[str, Any]:
    axis: dict[str, Any] = {
        "title": {"text": title, "standoff": 10},
        "automargin": True,
        "gridcolor": "@border",
        "linecolor": "@border",
        "zeroline": False,
        "ticks": "",
    }
    return axis | ({"range": list(limits)} if limits else {})


def _height(chart: Chart) -> int:
    """Return the height of a chart in pixels."""
    if chart.kind == "bars":
        return 100 + 19 * sum(len(series.y) for series in chart.series) + 10 * len(chart.series[0].y)
    if chart.kind == "heatmap":
        return 520 if chart.series else int(np.clip(160 + 22 * len(chart.cells), 300, 760))
    return {"network": 620, "points": 520}.get(chart.kind, 480 if chart.equal_axes else 400)


def _colour(index: int, opacity: int | None = None) -> str:
    """Return the placeholder of a palette index, with an opacity in percent."""
    name = "@grey" if index == GREY else f"@{index % len(LIGHT)}"
    return name if opacity is None else f"{name}/{opacity}"


def _number(value: Any) -> float | None:
    """Return a number with six significant digits, None if it is not finite."""
    return float(f"{float(value):.6g}") if math.isfinite(float(value)) else None


def _values(values: Sequence[Any]) -> list[Any]:
    return [value if isinstance(value, str) else _number(value) for value in values]


def _line_traces(chart: Chart, layout: Layout) -> list[Trace]:
    traces: list[Trace] = []
    for series, index in zip(chart.series, colour_indices(chart.series), strict=True):
        x, y = _values(series.x), _values(series.y)
        if len(series.deviations):
            low = [_number(a - b) for a, b in zip(series.y, series.deviations, strict=True)]
            high = [_number(a + b) for a, b in zip(series.y, series.deviations, strict=True)]
            band = {"mode": "lines", "line": {"width": 0}, "hoverinfo": "skip", "showlegend": False}
            band |= {"type": "scatter", "legendgroup": series.name}
            traces.append(band | {"x": x, "y": low})
            traces.append(band | {"x": x, "y": high, "fill": "tonexty", "fillcolor": _colour(index, 18)})
        line: dict[str, Any] = {"color": _colour(index), "width": 2}
        marked = len(x) <= MAX_MARKED_POINTS and not series.dashed
        trace = {
            "type": "scatter",
            "mode": "lines+markers" if marked else "lines",
            "name": series.name,
            "x": x,
            "y": y,
            "line": line | ({"dash": "dash"} if series.dashed else {}),
            "legendgroup": series.name,
        }
        if len(series.point_texts):
            trace |= {"text": list(series.point_texts), "hovertemplate": "%{text}<extra>%{fullData.name}</extra>"}
        if marked:
            trace["marker"] = {"symbol": SYMBOLS.get(series.marker, "circle"), "size": 7, "color": _colour(index)}
        traces.append(trace)
    layout["hovermode"] = "x unified" if not chart.equal_axes else "closest"
    return traces


def _bar_traces(chart: Chart, layout: Layout) -> list[Trace]:
    traces = []
    for series, index in zip(chart.series, colour_indices(chart.series), strict=True):
        texts = list(series.point_texts) or ["" if math.isnan(value) else f"{value:.4g}" for value in series.y]
        trace: Trace = {
            "type": "bar",
            "orientation": "h",
            "name": series.name,
            "y": [str(name) for name in series.x],
            "x": _values(series.y),
            "marker": {"color": _colour(index)},
            "text": texts,
            "textposition": "outside",
            "cliponaxis": False,
            "textfont": {"color": "@muted", "size": 12},
            "hovertemplate": "%{y}: %{text}<extra></extra>",
        }
        if len(series.deviations):
            trace["error_x"] = {"type": "data", "array": _values(series.deviations), "color": "@muted", "thickness": 1}
            trace["textposition"] = "none"
        traces.append(trace)
    layout["xaxis"], layout["yaxis"] = _axis(chart.y_title, None), _axis(chart.x_title, None)
    layout["yaxis"] |= {"autorange": "reversed", "showgrid": False, "type": "category"}
    layout["bargap"] = 0.25
    layout["margin"] = layout["margin"] | {"r": 60}
    layout["hovermode"] = "closest"
    return traces


def _point_traces(chart: Chart, layout: Layout) -> list[Trace]:
    traces = [_outline(np.array(corners), number) for number, corners in enumerate(chart.outlines)]
    indices = colour_indices(chart.series)
    for number, (series, index) in enumerate(zip(chart.series, indices, strict=True)):
        symbol = marker_of(series, number if series.colour is None else index)
        marker: dict[str, Any] = {
            "color": _colour(index),
            "symbol": SYMBOLS[symbol],
            "size": 17 if symbol == "*" else 8,
            "line": {"color": _colour(index) if symbol == "x" else "@surface", "width": 2 if symbol == "x" else 0.8},
        }
        traces.append(
            {
                "type": "scatter",
                "mode": "markers+text" if series.label_points else "markers",
                "name": series.name,
                "textposition": "top center",
                "textfont": {"color": "@text", "size": 11},
                "x": _values(series.x),
                "y": _values(series.y),
                "marker": marker,
                "text": list(series.point_texts) or [series.name] * len(series.x),
                "hovertemplate": "%{text}<extra></extra>",
            }
        )
    if chart.label_series:
        layout["annotations"] = [
            _series_label(series, index)
            for series, index in zip(chart.series, indices, strict=True)
            if series.name and len(series.x)
        ]
    layout["hovermode"] = "closest"
    return traces


def _series_label(series: Series, index: int) -> dict[str, Any]:
    """Return the name of a series at the median of its points."""
    x, y = (float(np.median(np.asarray(values, float))) for values in (series.x, series.y))
    return {
        "x": _number(x),
        "y": _number(y),
        "text": series.name,
        "showarrow": False,
        "bgcolor": "@surface/75",
        "font": {"color": _colour(index), "size": 12, "weight": 700},
    }


def _heatmap_traces(chart: Chart, layout: Layout) -> list[Trace]:
    is_surface = bool(chart.series)
    scale = SURFACE_SCALE if is_surface else HEATMAP_SCALE
    columns, rows = ([str(name) for name in names] for names in (chart.column_names, chart.row_names))
    trace: Trace = {
        "type": "heatmap",
        "z": [_values(row) for row in chart.cells],
        "x": list(range(len(columns))),
        "y": list(range(len(rows))),
        "colorscale": [[stop / (len(scale) - 1), colour] for stop, colour in enumerate(scale)],
        "xgap": 0 if is_surface else 1,
        "ygap": 0 if is_surface else 1,
        "customdata": [[[row, column] for column in columns] for row in rows],
        "hovertemplate": f"{escape(chart.y_title)} %{{customdata[0]}}<br>{escape(chart.x_title)} "
        f"%{{customdata[1]}}<br>{escape(chart.z_title)} %{{z:.4g}}<extra></extra>",
        "colorbar": {"title": {"text": chart.z_title, "side": "right"}, "thickness": 12, "outlinewidth": 0, "len": 0.9},
    }
    if chart.cell_format:
        texts = [[cell_text(value, chart.cell_format) for value in row] for row in chart.cells]
        trace |= {"text": texts, "texttemplate": "%{text}", "textfont": {"size": 11 if len(rows) < 16 else 9}}
    for axis, names in (("xaxis", columns), ("yaxis", rows)):
        ticks = tick_indices(len(names), is_surface=is_surface)
        layout[axis] |= {"tickvals": ticks, "ticktext": [names[index] for index in ticks], "showgrid": False}
    layout["xaxis"] |= {"tickangle": 0 if is_surface or max(map(len, columns), default=0) <= 3 else -50}
    layout["showlegend"] = False
    if not is_surface:
        layout["yaxis"] |= {"autorange": "reversed"}
        return [trace]
    layout["xaxis"] |= {"range": [-0.5, len(columns) - 0.5]}
    layout["yaxis"] |= {"range": [-0.5, len(rows) - 0.5]}
    return [trace, _mark_trace(chart)]


def _mark_trace(chart: Chart) -> Trace:
    """Return the marked positions of a heat map with their names."""
    marks = heatmap_marks(chart)
    return {
        "type": "scatter",
        "mode": "markers+text",
        "x": [x for x, _, _ in marks],
        "y": [y for _, y, _ in marks],
        "text": [name for _, _, name in marks],
        "showlegend": False,
        "hoverinfo": "text",
        "textposition": [f"{height} {side}" for height, side in mark_label_sides(chart)],
        "textfont": {"color": "#ffffff", "size": 13, "weight": 700, "shadow": "0 0 4px #000,0 0 4px #000"},
        "marker": {"color": "#ffffff", "size": 11, "line": {"color": "#111111", "width": 2}},
    }


def _outline(corners: NDArray[np.float64], index: int) -> Trace:
    return {
        "type": "scatter",
        "mode": "lines",
        "x": _values(corners[:, 0].tolist()),
        "y": _values(corners[:, 1].tolist()),
        "fill": "toself",
        "fillcolor": _colour(index, 14),
        "line": {"color": _colour(index, 55), "width": 1},
        "hoverinfo": "skip",
        "showlegend": False,
    }


def _network_traces(chart: Chart, layout: Layout) -> list[Trace]:
    positions, traces = node_positions(chart), []
    for number, group in enumerate(chart.groups):
        traces.append(_outline(rounded_hull(positions[list(group)], hull_margin(len(positions))), number))
    x: list[Any] = []
    y: list[Any] = []
    for a, b in chart.links:  # None ends a line, so one trace holds all links
        x += [_number(positions[a, 0]), _number(positions[b, 0]), None]
        y += [_number(positions[a, 1]), _number(positions[b, 1]), None]
    links = {"type": "scatter", "mode": "lines", "x": x, "y": y, "line": {"color": "@grey/60", "width": 1}}
    traces.append(links | {"hoverinfo": "skip", "showlegend": False})
    for series, index in zip(chart.series, colour_indices(chart.series), strict=True):
        traces.append(
            {
                "type": "scatter",
                "mode": "markers+text" if len(positions) <= MAX_LABELLED_NODES else "markers",
                "name": series.name,
                "x": _values(series.x),
                "y": _values(series.y),
                "text": list(series.point_texts),
                "textposition": "bottom center",
                "textfont": {"color": "@text", "size": 11},
                "hovertemplate": "%{text}<extra>%{fullData.name}</extra>",
                "marker": {
                    "color": _colour(index),
                    "size": 11,
                    "symbol": SYMBOLS[series.marker],
                    "line": {"color": "@surface", "width": 1},
                },
            }
        )
    layout["hovermode"] = "closest"
    return traces


TRACES_BY_KIND: Mapping[str, Callable[[Chart, Layout], list[Trace]]] = {
    "lines": _line_traces,
    "bars": _bar_traces,
    "points": _point_traces,
    "heatmap": _heatmap_traces,
    "network": _network_traces,
}
