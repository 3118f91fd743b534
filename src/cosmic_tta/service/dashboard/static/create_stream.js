// The dialog that creates a stream.

import { request } from "/page/api.js";
import { button, h } from "/page/dom.js";
import { notify } from "/page/notifications.js";

const DESCRIPTIONS = {
  // in the order in which the methods are recommended
  bayes_means: "the default; learns a mean per class",
  cosmic: "the paper's method; cliques of class centres",
  tda: "positive and negative caches",
  dmn: "a memory with attention",
  tpt: "tunes the prompt for each image; slow",
  difftpt: "the same with generated views; slow",
  zero_shot: "learns nothing",
};
const RECOMMENDED = Object.keys(DESCRIPTIONS);

const rank = (name) => (RECOMMENDED.includes(name) ? RECOMMENDED.indexOf(name) : RECOMMENDED.length);
const byRank = (methods) => methods.toSorted((a, b) => rank(a) - rank(b));
const methodLabel = (name) => (DESCRIPTIONS[name] ? `${name}: ${DESCRIPTIONS[name]}` : name);

function makeFields({ methods, encoders }) {
  const option = (value, label, selected = false) => h("option", { value, selected }, label);
  return {
    name: h("input", {
      id: "c-name",
      required: true,
      pattern: "[A-Za-z0-9][A-Za-z0-9._\\-]{0,63}",
      placeholder: "harbour",
      autocomplete: "off",
      title: "Letters, digits, dot, dash and underscore.",
    }),
    classes: h("textarea", {
      id: "c-classes",
      required: true,
      rows: 6,
      placeholder: "ship\ntruck\nairplane",
      spellcheck: false,
    }),
    method: h(
      "select",
      { id: "c-method" },
      byRank(methods).map((name, k) => option(name, methodLabel(name), k === 0)),
    ),
    encoder: h(
      "select",
      { id: "c-encoder" },
      encoders.map((name) => option(name, name)),
    ),
  };
}

const classNames = (text) =>
  text
    .split(/[\n,]/)
    .map((name) => name.trim())
    .filter(Boolean);

export function createStreamDialog(choices, onCreated) {
  const fields = makeFields(choices);
  const problem = h("p", { class: "said bad", role: "alert" });
  const create = h("button", { type: "submit", class: "primary" }, "Create");
  const labelled = (label, field) => [h("label", { htmlFor: field.id }, label), field];

  const onsubmit = async (event) => {
    event.preventDefault();
    create.disabled = true;
    const name = fields.name.value.trim();
    const classes = classNames(fields.classes.value);
    const json = { name, classes, method: fields.method.value, encoder: fields.encoder.value };
    try {
      await request("/v1/streams", { method: "POST", json });
      dialog.close();
      notify(`${name} was created with ${classes.length} classes.`);
      onCreated(name);
    } catch (error) {
      problem.textContent = `${error.message} ${error.hint ?? ""}`;
    } finally {
      create.disabled = false;
    }
  };

  const dialog = h(
    "dialog",
    { class: "box wide", onclose: () => dialog.remove() },
    h(
      "form",
      { onsubmit },
      h("h2", {}, "New stream"),
      labelled("Name", fields.name),
      labelled("Classes, one per line", fields.classes),
      labelled("Method", fields.method),
      labelled("Encoder", fields.encoder),
      problem,
      h(
        "div",
        { class: "row end" },
        button("Cancel", {}, () => dialog.close()),
        create,
      ),
    ),
  );
  document.body.append(dialog);
  dialog.showModal();
  fields.name.focus();
}
