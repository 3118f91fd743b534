// Curves over time, by plotly from this server. Without it the last figures are told in words.

import { share } from "/page/building.js";

let wanted;

function library() {
  wanted ??= import("/page/plotly.js").then(() => window.Plotly);
  return wanted;
}

const ink = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function layout(range) {
  const axis = { gridcolor: ink("--rule"), linecolor: ink("--rule"), zeroline: false, tickfont: { color: ink("--soft"), size: 11 }, fixedrange: true };
  return {
    height: 210,
    margin: { l: 42, r: 12, t: 6, b: 34 },
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: "system-ui, sans-serif", color: ink("--ink"), size: 12 },
    xaxis: { ...axis, title: { text: "step", font: { size: 11, color: ink("--soft") }, standoff: 4 }, tickformat: ",d", nticks: 6 },
    yaxis: { ...axis, range, tickformat: ".0%", nticks: 5 },
    hovermode: "x unified",
    hoverlabel: { bgcolor: ink("--paper"), bordercolor: ink("--rule"), font: { color: ink("--ink") } },
    legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0, font: { size: 12 } },
    showlegend: true,
  };
}

// `series`: [{name, x, y, colour, dash}]; the y axis fits them, within 0 and 1.
export async function curves(place, series, there) {
  const last = series.filter((one) => one.y.length).map((one) => `${one.name} ${share(one.y.at(-1))}`).join(", ");
  place.setAttribute("role", "img");
  place.setAttribute("aria-label", last ? `Now: ${last}.` : "Nothing yet.");
  const said = (text) => {
    const words = document.createElement("p");
    words.className = "empty";
    words.textContent = text;
    place.replaceChildren(words);
  };
  if (!last) return said(place.dataset.empty);
  if (!there) return said(`${last}. Charts need plotly on the server: pip install 'cosmic-tta[serve]'.`);
  const plotly = await library().catch(() => null);
  if (!plotly) return said(`${last}. The charts' library could not be loaded.`);
  if (!place.isConnected) return undefined;
  if (!place.classList.contains("js-plotly-plot")) place.replaceChildren();
  const values = series.flatMap((one) => one.y);
  const low = Math.max(0, Math.min(...values) - 0.06);
  const high = Math.min(1.02, Math.max(...values) + 0.06);
  const traces = series.map((one) => ({
    type: "scatter", mode: one.x.length < 3 ? "lines+markers" : "lines", name: one.name, x: one.x, y: one.y, hovertemplate: "%{y:.1%}",
    line: { color: ink(one.colour), width: 2, dash: one.dash ?? "solid", shape: "linear" },
  }));
  await plotly.react(place, traces, layout([low, high]), { displayModeBar: false, responsive: true });
  place.dataset.points = String(series[0].x.length);
  place.dataset.last = String(series[0].x.at(-1));
  return undefined;
}
