// Line charts by plotly, which this server ships. Without it the last values are shown as text.

import { emptyText } from "/page/dom.js";
import { percent } from "/page/format.js";

let loading;

function loadPlotly() {
  loading ??= import("/page/plotly.js").then(() => window.Plotly);
  return loading;
}

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function layout(range) {
  const axis = {
    gridcolor: colour("--rule"),
    linecolor: colour("--rule"),
    zeroline: false,
    tickfont: { color: colour("--soft"), size: 11 },
    fixedrange: true,
  };
  const title = { text: "step", font: { size: 11, color: colour("--soft") }, standoff: 4 };
  return {
    height: 210,
    margin: { l: 42, r: 12, t: 6, b: 34 },
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: "system-ui, sans-serif", color: colour("--ink"), size: 12 },
    xaxis: { ...axis, title, tickformat: ",d", nticks: 6 },
    yaxis: { ...axis, range, tickformat: ".0%", nticks: 5 },
    hovermode: "x unified",
    hoverlabel: { bgcolor: colour("--paper"), bordercolor: colour("--rule"), font: { color: colour("--ink") } },
    legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0, font: { size: 12 } },
    showlegend: true,
  };
}

function trace(series) {
  return {
    type: "scatter",
    mode: series.x.length < 3 ? "lines+markers" : "lines",
    name: series.name,
    x: series.x,
    y: series.y,
    hovertemplate: "%{y:.1%}",
    line: { color: colour(series.colour), width: 2, dash: series.dash ?? "solid", shape: "linear" },
  };
}

function valueRange(allSeries) {
  const values = allSeries.flatMap((series) => series.y);
  return [Math.max(0, Math.min(...values) - 0.06), Math.min(1.02, Math.max(...values) + 0.06)];
}

// Draw [{name, x, y, colour, dash}] into an element. The y axis fits the values, within 0 and 1.
export async function drawLines(element, allSeries, hasPlotly) {
  const drawn = allSeries.filter((series) => series.y.length);
  const last = drawn.map((series) => `${series.name} ${percent(series.y.at(-1))}`).join(", ");
  element.setAttribute("role", "img");
  element.setAttribute("aria-label", last ? `Now: ${last}.` : "Nothing yet.");
  const showText = (text) => element.replaceChildren(emptyText(text));
  if (!last) return showText(element.dataset.empty);
  if (!hasPlotly) return showText(`${last}. Charts need plotly on the server: pip install 'cosmic-tta[serve]'.`);
  const plotly = await loadPlotly().catch(() => null);
  if (!plotly) return showText(`${last}. The chart library could not be loaded.`);
  if (!element.isConnected) return undefined;
  if (!element.classList.contains("js-plotly-plot")) element.replaceChildren();
  const options = { displayModeBar: false, responsive: true };
  await plotly.react(element, allSeries.map(trace), layout(valueRange(allSeries)), options);
  element.dataset.points = String(allSeries[0].x.length);
  element.dataset.last = String(allSeries[0].x.at(-1));
  return undefined;
}
