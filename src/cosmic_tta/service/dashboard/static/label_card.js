// One answer to label: its image, its class, and a form for the true class.

import { button, h, replaceContent } from "/page/dom.js";
import { count, scorePercent } from "/page/format.js";
import { thumbnail } from "/page/thumbnails.js";

export class LabelCard {
  // `onLabel(card, label, byKey)` is called when the user gives a label.
  constructor(item, stream, { onLabel, onFieldFocus }) {
    Object.assign(this, { number: item.number, answer: item.answer, stream, busy: false, shownImage: undefined });
    this.field = h("input", {
      type: "text",
      "aria-label": `True class of step ${item.number}`,
      placeholder: "another class",
      onfocus: onFieldFocus,
    });
    this.field.setAttribute("list", "class-names");
    this.right = button("Right", { "aria-label": `Step ${item.number} is ${item.answer}` }, (event) =>
      onLabel(this, item.answer, event.detail === 0),
    );
    this.image = h("span", { class: "place" });
    this.status = h("small", { class: "was" });
    this.form = this.makeForm(onLabel);
    this.element = this.makeElement(item);
    this.update(item);
  }

  makeForm(onLabel) {
    const onsubmit = (event) => {
      event.preventDefault();
      if (this.field.value.trim()) onLabel(this, this.field.value.trim(), true);
    };
    const set = h("button", { type: "submit", "aria-label": `Set the label of step ${this.number}` }, "Set");
    return h("form", { class: "row", onsubmit }, this.right, this.field, set);
  }

  makeElement(item) {
    const source = item.source ? `, ${item.source}` : "";
    const text = h(
      "p",
      {},
      h("b", {}, item.answer),
      ` ${scorePercent(item.confidence)}`,
      h("small", {}, ` step ${count(item.number)}${source}`),
      this.status,
    );
    return h("li", { class: "card" }, this.image, h("div", {}, text, this.form));
  }

  // The thumbnail may appear or be removed later.
  update(item) {
    if (this.shownImage === item.image) return;
    this.shownImage = item.image;
    const step = item.image ? item.number : null;
    replaceContent(this.image, thumbnail(this.stream, step, `step ${item.number}`));
  }

  markLabelled(label) {
    this.status.textContent = ` labelled ${label}`;
    this.element.classList.add("done");
  }
}
