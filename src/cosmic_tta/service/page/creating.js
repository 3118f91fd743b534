// What is asked of people: a new stream, a token, a note.

import { ask } from "/page/asking.js";
import { h, note } from "/page/building.js";

const ABOUT = { // in the order in which they are recommended
  bayes_means: "the default; class means that learn",
  cosmic: "the paper's: cliques of class centres",
  tda: "positive and negative caches",
  dmn: "a memory that attends",
  tpt: "tunes the prompt for each picture; slow",
  difftpt: "the same, with views that were drawn; slow",
  zero_shot: "learns nothing",
};

// The recommended first, what we do not know of last.
const known = Object.keys(ABOUT);
const rank = (name) => (known.includes(name) ? known.indexOf(name) : known.length);
const ordered = (methods) => methods.toSorted((a, b) => rank(a) - rank(b));

// A form for a token, in the place of what it opens; the rest of the page stays usable.
export function tokenForm({ id, title, words, wrong, given }) {
  const field = h("input", { type: "password", id, autocomplete: "off", required: true, "data-key": id });
  return h("form", { class: "token", onsubmit: (event) => { event.preventDefault(); if (field.value.trim()) given(field.value.trim()); } },
    h("h2", {}, title),
    wrong ? h("p", { class: "said bad", role: "alert" }, "That token is not the right one.") : null,
    h("p", {}, words, " It is kept in this tab alone, until the tab is closed."),
    h("label", { htmlFor: id }, "Token"), field,
    h("div", { class: "row end" }, h("button", { type: "submit", class: "primary" }, "Open")));
}

// A line of words that may be left empty; resolves to null if it was put off.
export function askNote(title, text, yes) {
  return new Promise((answer) => {
    const field = h("input", { type: "text", id: "note", maxLength: 200, autocomplete: "off", placeholder: "before the new camera" });
    const box = h("dialog", { class: "box", onclose: () => { box.remove(); answer(box.returnValue === "yes" ? field.value.trim() : null); } },
      h("form", { onsubmit: (event) => { event.preventDefault(); box.close("yes"); } },
        h("h2", {}, title), h("p", {}, text),
        h("label", { htmlFor: "note" }, "Note, if you like"), field,
        h("div", { class: "row end" },
          h("button", { type: "button", onclick: () => box.close("no") }, "Cancel"),
          h("button", { type: "submit", class: "primary" }, yes))));
    document.body.append(box);
    box.showModal();
    field.focus();
  });
}

export function createStream(told, done) {
  const name = h("input", { id: "c-name", required: true, pattern: "[A-Za-z0-9][A-Za-z0-9._\\-]{0,63}", placeholder: "harbour", autocomplete: "off", title: "Letters, digits, dot, dash and underscore." });
  const classes = h("textarea", { id: "c-classes", required: true, rows: 6, placeholder: "ship\ntruck\nairplane", spellcheck: false });
  const method = h("select", { id: "c-method" }, ordered(told.methods).map((one, k) => h("option", { value: one, selected: k === 0 }, ABOUT[one] ? `${one}: ${ABOUT[one]}` : one)));
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
