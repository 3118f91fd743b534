// Elements from plain calls. No text is ever parsed as HTML, so no class name can become markup.

const isShown = (child) => child !== null && child !== undefined && child !== false;
const flatten = (children) => children.flat(Infinity).filter(isShown);

function setProperty(element, name, value) {
  if (!isShown(value)) return;
  const isAttribute = name.startsWith("aria") || name === "list" || name === "role" || !(name in element);
  if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
  else if (name === "class") element.className = value;
  else if (name === "css") for (const [key, one] of Object.entries(value)) element.style.setProperty(key, one);
  else if (isAttribute) element.setAttribute(name, value === true ? "" : value);
  else element[name] = value;
}

export function h(tag, props = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) setProperty(element, name, value);
  element.append(...flatten(children));
  return element;
}

// Replace the content of an element. The focus stays with the element of the same `data-key`.
export function replaceContent(element, ...children) {
  const active = document.activeElement;
  const key = element.contains(active) ? active.dataset.key : undefined;
  element.replaceChildren(...flatten(children));
  if (key !== undefined) element.querySelector(`[data-key="${CSS.escape(key)}"]`)?.focus();
}

export const isTyping = (element) =>
  element.contains(document.activeElement) &&
  ["INPUT", "SELECT", "TEXTAREA"].includes(document.activeElement.tagName);

export function button(label, props, action) {
  return h("button", { type: "button", onclick: action, ...props }, label);
}

export function meter(value, kind = "") {
  const width = `${Math.min(100, 100 * value).toFixed(1)}%`;
  return h("span", { class: `meter ${kind}`, "aria-hidden": "true" }, h("i", { css: { width } }));
}

export function panel(title, hint, props, ...children) {
  const id = `h-${title.toLowerCase().replaceAll(/[^a-z]+/g, "-")}`;
  return h(
    "section",
    { class: `panel ${props.class ?? ""}`, "aria-labelledby": id },
    h("h2", { id }, title),
    hint ? h("p", { class: "hint" }, hint) : null,
    children,
  );
}

export const emptyText = (text) => h("p", { class: "empty" }, text);
export const hintText = (text) => h("p", { class: "hint" }, text);

// A table of rows, each a list of cells; `empty` is shown where there are none.
export function table(heads, rows, empty) {
  if (!rows.length) return emptyText(empty);
  const head = h(
    "tr",
    {},
    heads.map((text) => h("th", { scope: "col" }, text)),
  );
  return h("div", { class: "scroll" }, h("table", {}, h("thead", {}, head), h("tbody", {}, rows)));
}
