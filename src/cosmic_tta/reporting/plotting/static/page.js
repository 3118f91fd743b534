"use strict";
(() => {
  const { charts, palettes, themes } = JSON.parse(document.getElementById("charts").textContent);
  const PLOTLY_CONFIG = { responsive: true, displaylogo: false, displayModeBar: false, scrollZoom: false };
  const NARROW = 480; // pixels: below, charts are drawn for a phone
  const PRINT_WIDTH = 680;
  const STORAGE_KEY = "cosmic-theme";

  const root = document.documentElement;
  const button = document.getElementById("theme");
  const menus = [...document.querySelectorAll(".filters select")];
  const systemIsDark = matchMedia("(prefers-color-scheme: dark)");
  let chosenTheme = readChosenTheme();
  let printing = false;

  // Some browsers refuse storage to a page that is opened from a file.
  function readChosenTheme() {
    try { return localStorage.getItem(STORAGE_KEY); } catch { return null; }
  }

  function storeChosenTheme(theme) {
    try { localStorage.setItem(STORAGE_KEY, theme); } catch { /* the choice lasts until the page is closed */ }
  }

  function currentTheme() {
    if (printing) return "light";
    return chosenTheme ?? (systemIsDark.matches ? "dark" : "light");
  }

  // "@3/20" is the fourth colour with an opacity of 20 %; see plotly_backend.py.
  function resolveColour(text, theme) {
    const parts = /^@(\w+)(?:\/(\d+))?$/.exec(text);
    if (!parts) return text;
    const [, name, opacity] = parts;
    const colour = /^\d+$/.test(name) ? palettes[theme][Number(name)] : themes[theme][name];
    if (!opacity) return colour;
    const [red, green, blue] = [1, 3, 5].map((digit) => parseInt(colour.slice(digit, digit + 2), 16));
    return `rgba(${red},${green},${blue},${Number(opacity) / 100})`;
  }

  function withColours(value, theme) {
    if (Array.isArray(value)) return value.map((item) => withColours(item, theme));
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, withColours(item, theme)]));
    }
    return typeof value === "string" ? resolveColour(value, theme) : value;
  }

  function fitNarrowScreen(data, layout) {
    layout.font.size = 11;
    for (const trace of data) {
      if (!trace.colorbar) continue;
      if (trace.texttemplate) {
        trace.showscale = false; // the cells show their numbers
        trace.textfont.size = 8;
      } else {
        Object.assign(trace.colorbar, { orientation: "h", y: -0.2, yanchor: "top" });
        trace.colorbar.title.side = "bottom";
      }
    }
  }

  function drawChart(element, chart, theme) {
    const { data, layout, height } = withColours(chart, theme);
    const width = printing ? PRINT_WIDTH : element.clientWidth;
    const isNarrow = width < NARROW;
    layout.height = height;
    if (printing) {
      layout.width = width;
      layout.height = Math.min(height, data[0]?.type === "heatmap" ? 400 : 440);
    }
    if (isNarrow && layout.yaxis.scaleanchor) layout.height = Math.min(height, Math.round(width * 1.2));
    if (isNarrow) fitNarrowScreen(data, layout);
    Plotly.react(element, data, layout, PLOTLY_CONFIG).then(() => { element.dataset.drawn = theme; });
  }

  function drawPage() {
    const theme = currentTheme();
    const other = theme === "dark" ? "light" : "dark";
    root.dataset.theme = theme;
    button.textContent = other === "light" ? "Light" : "Dark";
    button.setAttribute("aria-label", `Use the ${other} theme`);
    for (const [id, chart] of Object.entries(charts)) {
      const element = document.getElementById(id);
      if (!element.closest("[hidden]")) drawChart(element, chart, theme);
    }
  }

  function applyFilters() {
    for (const block of document.querySelectorAll("[data-tags]")) {
      const tags = JSON.parse(block.dataset.tags);
      block.hidden = menus.some((menu) => tags[menu.dataset.name] && !tags[menu.dataset.name].includes(menu.value));
    }
    drawPage();
  }

  function printMode(isPrinting) {
    printing = isPrinting;
    drawPage();
  }

  function sortValue(cell) {
    const number = parseFloat(cell.dataset.value);
    return Number.isNaN(number) ? cell.textContent : number;
  }

  // Numbers come before texts.
  function compareValues(a, b) {
    if (typeof a === "number" && typeof b === "number") return a - b;
    if (typeof a !== typeof b) return typeof a === "number" ? -1 : 1;
    return a.localeCompare(b);
  }

  function sortTable(table, column) {
    const head = table.querySelectorAll("th")[column];
    const ascending = head.getAttribute("aria-sort") !== "ascending";
    for (const other of table.querySelectorAll("th")) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", ascending ? "ascending" : "descending");
    const body = table.tBodies[0];
    const rows = [...body.rows].sort((a, b) => {
      const order = compareValues(sortValue(a.cells[column]), sortValue(b.cells[column]));
      return ascending ? order : -order;
    });
    body.append(...rows);
  }

  button.addEventListener("click", () => {
    chosenTheme = currentTheme() === "dark" ? "light" : "dark";
    storeChosenTheme(chosenTheme);
    drawPage();
  });
  systemIsDark.addEventListener("change", drawPage);
  addEventListener("beforeprint", () => printMode(true));
  addEventListener("afterprint", () => printMode(false));
  for (const table of document.querySelectorAll("table")) {
    table.querySelectorAll("th button").forEach((head, column) => {
      head.addEventListener("click", () => sortTable(table, column));
    });
  }
  for (const menu of menus) {
    menu.closest(".filters").hidden = false;
    menu.addEventListener("change", applyFilters);
  }
  applyFilters();
})();
