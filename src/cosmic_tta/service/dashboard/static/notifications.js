// Messages at the foot of the page. They go after some seconds, or when they are dismissed.

import { NoAnswerError } from "/page/api.js";
import { h } from "/page/dom.js";

const MAX_SHOWN = 4;
const SHOWN_FOR = { good: 4000, bad: 12000 }; // ms

export function notify(text, kind = "good", hint = "") {
  const list = document.getElementById("notes");
  const message = h(
    "p",
    { class: `note ${kind}` },
    h("span", {}, text, hint ? h("small", {}, ` ${hint}`) : null),
    h("button", { type: "button", class: "quiet", "aria-label": "Dismiss", onclick: () => message.remove() }, "✕"),
  );
  list.append(message);
  while (list.childElementCount > MAX_SHOWN) list.firstChild.remove();
  setTimeout(() => message.remove(), SHOWN_FOR[kind]);
}

export function notifyError(action, error) {
  const text = error instanceof NoAnswerError ? error.message : `${action}: ${error.message}`;
  notify(text, "bad", error.hint);
}
