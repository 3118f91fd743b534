// Questions to the user: confirm an action, write a note, give a token.

import { button, h } from "/page/dom.js";

function open(dialog) {
  document.body.append(dialog);
  dialog.showModal();
}

// Resolves to true if the user confirmed.
export function confirmDialog(title, text, confirmLabel, danger = false) {
  return new Promise((resolve) => {
    const onclose = () => {
      dialog.remove();
      resolve(dialog.returnValue === "yes");
    };
    const dialog = h(
      "dialog",
      { class: "box", onclose },
      h("h2", {}, title),
      h("p", {}, text),
      h(
        "div",
        { class: "row end" },
        button("Cancel", {}, () => dialog.close("no")),
        button(confirmLabel, { class: danger ? "danger" : "primary" }, () => dialog.close("yes")),
      ),
    );
    open(dialog);
  });
}

// Resolves to the text, which may be empty, or to null if the user cancelled.
export function noteDialog(title, text, confirmLabel) {
  return new Promise((resolve) => {
    const field = h("input", {
      type: "text",
      id: "note",
      maxLength: 200,
      autocomplete: "off",
      placeholder: "before the new camera",
    });
    const onclose = () => {
      dialog.remove();
      resolve(dialog.returnValue === "yes" ? field.value.trim() : null);
    };
    const onsubmit = (event) => {
      event.preventDefault();
      dialog.close("yes");
    };
    const dialog = h(
      "dialog",
      { class: "box", onclose },
      h(
        "form",
        { onsubmit },
        h("h2", {}, title),
        h("p", {}, text),
        h("label", { htmlFor: "note" }, "Note (optional)"),
        field,
        h(
          "div",
          { class: "row end" },
          button("Cancel", {}, () => dialog.close("no")),
          h("button", { type: "submit", class: "primary" }, confirmLabel),
        ),
      ),
    );
    open(dialog);
    field.focus();
  });
}

// A form for a token. It stands in the place of what the token opens; the rest of the page stays usable.
export function tokenForm({ id, title, text, wrong, onToken }) {
  const field = h("input", { type: "password", id, autocomplete: "off", required: true, "data-key": id });
  const onsubmit = (event) => {
    event.preventDefault();
    if (field.value.trim()) onToken(field.value.trim());
  };
  return h(
    "form",
    { class: "token", onsubmit },
    h("h2", {}, title),
    wrong ? h("p", { class: "said bad", role: "alert" }, "That token is not the right one.") : null,
    h("p", {}, text, " The token is kept in this tab only, until the tab is closed."),
    h("label", { htmlFor: id }, "Token"),
    field,
    h("div", { class: "row end" }, h("button", { type: "submit", class: "primary" }, "Open")),
  );
}
