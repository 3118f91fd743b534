// Elements from plain calls; nothing is ever read as HTML, so no name of a class can be markup.

import { Unanswered } from "/page/asking.js";

export function h(tag, props = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "class") element.className = value;
    else if (name === "css") for (const [key, one] of Object.entries(value)) element.style.setProperty(key, one);
    else if (name in element && !name.startsWith("aria") && name !== "list" && name !== "role") element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

// A button that keeps its place and its meaning: where it cannot be used it says why, and does nothing.
export function usable(button, why) {
  if (why) button.setAttribute("aria-disabled", "true");
  else button.removeAttribute("aria-disabled");
  button.title = why;
}

export const press = (button, action) => button.addEventListener("click", () => {
  if (button.getAttribute("aria-disabled")) note(button.title);
  else action();
});

// Put new content into a place; focus stays with the element of the same `data-key`.
export function put(place, ...children) {
  const key = place.contains(document.activeElement) ? document.activeElement.dataset.key : undefined;
  place.replaceChildren(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  if (key !== undefined) place.querySelector(`[data-key="${CSS.escape(key)}"]`)?.focus();
}

export const isTyping = (place) =>
  place.contains(document.activeElement) && ["INPUT", "SELECT", "TEXTAREA"].includes(document.activeElement.tagName);

// What is not all is never told as 100 %.
export function share(value, digits = 1) {
  if (value === null || value === undefined) return "–";
  const most = 100 - 10 ** -digits;
  const told = (100 * value).toFixed(digits);
  return value < 1 && Number(told) >= 100 ? `>${most.toFixed(digits)}\u202f%` : `${told}\u202f%`;
}

// A score is never all: the server rounds it.
export const score = (value) => share(Math.min(value, 0.99999), 0);
export const count = (value) => value.toLocaleString("en");

export const meter = (value, kind = "") => h("span", { class: `meter ${kind}`, "aria-hidden": "true" }, h("i", { css: { width: `${Math.min(100, 100 * value).toFixed(1)}%` } }));

// A sentence at the foot of the page; it goes by itself, or when it is clicked.
export function note(text, kind = "good", hint = "") {
  const place = document.getElementById("notes");
  const one = h("p", { class: `note ${kind}` }, h("span", {}, text, hint ? h("small", {}, ` ${hint}`) : null),
    h("button", { type: "button", class: "quiet", "aria-label": "Dismiss", onclick: () => one.remove() }, "✕"));
  place.append(one);
  while (place.childElementCount > 4) place.firstChild.remove();
  setTimeout(() => one.remove(), kind === "bad" ? 12000 : 4000);
}

// What did not go well. Where nobody answered there is nothing to add.
export const complain = (what, error) => note(error instanceof Unanswered ? error.message : `${what}: ${error.message}`, "bad", error.hint);

// How a stream stands, as a colour and words.
export function standing(one) {
  if (one.problem) return ["bad", "takes no pictures"];
  if (one.fallen_back) return ["bad", "zero-shot only"];
  return one.paused ? ["wait", "paused"] : ["good", "learning"];
}

// A question with a yes; resolves to what was chosen, null if it was put off.
export function confirm(title, text, yes, danger = false) {
  return new Promise((answer) => {
    const box = h("dialog", { class: "box", onclose: () => { box.remove(); answer(box.returnValue === "yes"); } },
      h("h2", {}, title), h("p", {}, text),
      h("div", { class: "row end" },
        h("button", { type: "button", onclick: () => box.close("no") }, "Cancel"),
        h("button", { type: "button", class: danger ? "danger" : "primary", onclick: () => box.close("yes") }, yes)));
    document.body.append(box);
    box.showModal();
  });
}

export function panel(title, hint, props, ...children) {
  const id = `h-${title.toLowerCase().replaceAll(/[^a-z]+/g, "-")}`;
  return h("section", { class: `panel ${props.class ?? ""}`, "aria-labelledby": id },
    h("h2", { id }, title), hint ? h("p", { class: "hint" }, hint) : null, children);
}
