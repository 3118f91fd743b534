// Elements from plain calls; nothing is ever read as HTML, so no name of a class can be markup.

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

// Put new content into a place; focus stays with the element of the same `data-key`.
export function put(place, ...children) {
  const key = place.contains(document.activeElement) ? document.activeElement.dataset.key : undefined;
  place.replaceChildren(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  if (key !== undefined) place.querySelector(`[data-key="${CSS.escape(key)}"]`)?.focus();
}

export const isTyping = (place) =>
  place.contains(document.activeElement) && ["INPUT", "SELECT", "TEXTAREA"].includes(document.activeElement.tagName);

export const share = (value, digits = 1) => (value === null || value === undefined ? "–" : `${(100 * value).toFixed(digits)}\u202f%`);
export const count = (value) => value.toLocaleString("en");

// A sentence at the foot of the page; it goes by itself, or when it is clicked.
export function note(text, kind = "good", hint = "") {
  const place = document.getElementById("notes");
  const one = h("p", { class: `note ${kind}` }, h("span", {}, text, hint ? h("small", {}, ` ${hint}`) : null),
    h("button", { type: "button", class: "quiet", "aria-label": "Dismiss", onclick: () => one.remove() }, "✕"));
  place.append(one);
  while (place.childElementCount > 4) place.firstChild.remove();
  setTimeout(() => one.remove(), kind === "bad" ? 12000 : 4000);
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
