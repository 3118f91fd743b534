// Dialogs: a new stream, and the token.

import { ask, token } from "/page/asking.js";
import { h, note } from "/page/building.js";

const ABOUT = {
  bayes_means: "the default; class means that learn",
  cosmic: "the paper's: cliques of class centres",
  tda: "positive and negative caches",
  dmn: "a memory that attends",
  zero_shot: "learns nothing",
};

export function askToken(wrong) {
  return new Promise((given) => {
    const field = h("input", { type: "password", id: "token", autocomplete: "off", required: true });
    const box = h("dialog", { class: "box", oncancel: (event) => event.preventDefault() },
      h("form", { onsubmit: (event) => { event.preventDefault(); token.set(field.value.trim()); box.close(); box.remove(); given(); } },
        h("h2", {}, "This server asks for its token"),
        h("p", {}, wrong ? "That token is not the right one. " : "", "It is kept in this tab alone, until the tab is closed."),
        h("label", { htmlFor: "token" }, "Token"), field,
        h("div", { class: "row end" }, h("button", { type: "submit", class: "primary" }, "Open"))));
    document.body.append(box);
    box.showModal();
  });
}

export function createStream(told, done) {
  const name = h("input", { id: "c-name", required: true, pattern: "[A-Za-z0-9][A-Za-z0-9._\\-]{0,63}", placeholder: "harbour", autocomplete: "off", title: "Letters, digits, dot, dash and underscore." });
  const classes = h("textarea", { id: "c-classes", required: true, rows: 6, placeholder: "ship\ntruck\nairplane", spellcheck: false });
  const method = h("select", { id: "c-method" }, told.methods.toReversed().map((one) => h("option", { value: one }, ABOUT[one] ? `${one}: ${ABOUT[one]}` : one)));
  const encoder = h("select", { id: "c-encoder" }, told.encoders.map((one) => h("option", { value: one }, one)));
  const said = h("p", { class: "said bad", role: "alert" });
  const make = h("button", { type: "submit", class: "primary" }, "Create");
  const box = h("dialog", { class: "box wide", onclose: () => box.remove() },
    h("form", {
      onsubmit: async (event) => {
        event.preventDefault();
        make.disabled = true;
        const names = classes.value.split(/[\n,]/).map((one) => one.trim()).filter(Boolean);
        try {
          await ask("/v1/streams", { method: "POST", json: { name: name.value.trim(), classes: names, method: method.value, encoder: encoder.value } });
          box.close();
          note(`${name.value.trim()} is there, with ${names.length} classes.`);
          done(name.value.trim());
        } catch (error) {
          said.textContent = `${error.message} ${error.hint ?? ""}`;
        } finally {
          make.disabled = false;
        }
      },
    },
    h("h2", {}, "New stream"),
    h("label", { htmlFor: "c-name" }, "Name"), name,
    h("label", { htmlFor: "c-classes" }, "Classes, one a line"), classes,
    h("label", { htmlFor: "c-method" }, "Method"), method,
    h("label", { htmlFor: "c-encoder" }, "Encoder"), encoder,
    said,
    h("div", { class: "row end" },
      h("button", { type: "button", onclick: () => box.close() }, "Cancel"), make)));
  document.body.append(box);
  box.showModal();
  name.focus();
}
