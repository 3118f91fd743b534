"use strict";
(() => {
  const { charts, colours, inks } = JSON.parse(document.getElementById("charts").textContent);
  const root = document.documentElement, button = document.getElementById("theme");
  const system = matchMedia("(prefers-color-scheme: dark)");
  let chosen = null, printing = false;
  const remembered = () => { try { return localStorage.getItem("cosmic-theme"); } catch { return null; } };
  const remember = (name) => { try { localStorage.setItem("cosmic-theme", name); } catch { /* a page from a file may not store */ } };
  const theme = () => printing ? "light" : chosen ?? (system.matches ? "dark" : "light");

  // "@3/20" is the fourth colour at a fifth of its strength; see drawing/plots.py.
  const filled = (value, name) => {
    if (Array.isArray(value)) return value.map((one) => filled(one, name));
    if (value && typeof value === "object")
      return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, filled(one, name)]));
    if (typeof value !== "string" || value[0] !== "@") return value;
    const parts = /^@(\w+)(?:\/(\d+))?$/.exec(value);
    if (!parts) return value;
    const colour = /^\d+$/.test(parts[1]) ? colours[name][Number(parts[1])] : inks[name][parts[1]];
    if (!parts[2]) return colour;
    const [red, green, blue] = [1, 3, 5].map((place) => parseInt(colour.slice(place, place + 2), 16));
    return `rgba(${red},${green},${blue},${Number(parts[2]) / 100})`;
  };
  const settings = { responsive: true, displaylogo: false, displayModeBar: false, scrollZoom: false };
  const draw = () => {
    const name = theme();
    root.dataset.theme = name;
    button.textContent = name === "dark" ? "Light" : "Dark";
    button.setAttribute("aria-label", `Show the page ${name === "dark" ? "light" : "dark"}`);
    for (const [id, chart] of Object.entries(charts)) {
      const place = document.getElementById(id), { data, layout, height } = filled(chart, name);
      const width = printing ? 680 : place.clientWidth;
      const narrow = width < 480;
      layout.height = printing ? Math.min(height, data[0]?.type === "heatmap" ? 400 : 440) : height;
      if (narrow && layout.yaxis.scaleanchor) layout.height = Math.min(height, Math.round(width * 1.2));
      if (printing) layout.width = width;
      if (narrow) {
        layout.font.size = 11;
        for (const trace of data) if (trace.colorbar && trace.texttemplate) trace.showscale = false; else if (trace.colorbar) { trace.colorbar.orientation = "h"; trace.colorbar.y = -0.2; trace.colorbar.yanchor = "top"; trace.colorbar.title.side = "bottom"; }
        if (data[0]?.type === "heatmap" && data[0].texttemplate) data[0].textfont.size = 8;
      }
      Plotly.react(place, data, layout, settings).then(() => { place.dataset.drawn = name; });
    }
  };
  chosen = remembered();
  button.addEventListener("click", () => { chosen = theme() === "dark" ? "light" : "dark"; remember(chosen); draw(); });
  system.addEventListener("change", draw);
  addEventListener("beforeprint", () => { printing = true; draw(); });
  addEventListener("afterprint", () => { printing = false; draw(); });
  draw();

  const value = (cell) => { const number = parseFloat(cell.dataset.value); return Number.isNaN(number) ? cell.textContent : number; };
  for (const table of document.querySelectorAll("table")) {
    table.querySelectorAll("th button").forEach((head, column) => head.addEventListener("click", () => {
      const own = head.closest("th"), up = own.getAttribute("aria-sort") !== "ascending";
      for (const other of table.querySelectorAll("th")) other.removeAttribute("aria-sort");
      own.setAttribute("aria-sort", up ? "ascending" : "descending");
      const rows = [...table.tBodies[0].rows].sort((a, b) => {
        const [x, y] = [value(a.cells[column]), value(b.cells[column])];
        const order = typeof x === "number" && typeof y === "number" ? x - y : typeof x !== typeof y ? (typeof x === "number" ? -1 : 1) : x.localeCompare(y);
        return up ? order : -order;
      });
      table.tBodies[0].append(...rows);
    }));
  }
})();
