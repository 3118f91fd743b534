// Late answers to label. Each keeps its card, and while somebody is among them, by key or pointer, none moves or goes.

import { ask, picture } from "/page/asking.js";
import { complain, count, h, note, put, score } from "/page/building.js";

const CARDS = 12; // unsure answers
const SECOND_CLICK = 700; // ms in which a second click may still be meant for what was there before

export const thumb = (stream, step, alt) => {
  const image = h("img", { class: "thumb", alt, width: 44, height: 44 });
  if (step === null || step === undefined) return h("span", { class: "thumb none", title: "No picture: it came as features, or is long gone.", "aria-label": alt, role: "img" });
  picture(stream, step).then((address) => { image.src = address; }, () => image.classList.add("none"));
  return image;
};

export class Unsure {
  constructor(place, view) {
    Object.assign(this, { place, view, cards: new Map(), items: [], told: new Set(), over: false, wanting: false });
    place.tabIndex = -1;
    place.addEventListener("pointerenter", (event) => { this.over = event.pointerType !== "touch"; });
    place.addEventListener("pointerleave", () => { this.over = false; this.draw(this.items); });
    place.addEventListener("focusout", () => setTimeout(() => this.draw(this.items)));
    place.addEventListener("keydown", (event) => { if (event.repeat && event.key === "Enter") event.preventDefault(); }); // a key held down is one press
  }

  held() { return this.cards.size > 0 && (this.over || this.place.querySelector(":focus-visible") !== null); }

  draw(items) {
    this.items = items;
    if (!this.held()) return this.arrange();
    const list = this.place.querySelector("ul");
    for (const one of this.open()) {
      const card = this.cards.get(one.number);
      if (card) card.show(one);
      else if (this.cards.size < CARDS) list.append(this.card(one).element);
    }
    return undefined;
  }

  // What was labelled here is not asked again, whatever an older look says.
  open() { return this.items.filter((one) => !this.told.has(one.number)); }

  arrange() {
    const key = JSON.stringify(this.open());
    if (key === this.key && this.cards.size === this.open().length) return;
    this.key = key;
    const active = document.activeElement;
    const before = this.cards;
    this.cards = new Map();
    for (const one of this.open()) {
      const card = before.get(one.number);
      if (card?.answer === one.answer) { card.show(one); this.cards.set(one.number, card); } else this.card(one);
    }
    const elements = [...this.cards.values()].map((card) => card.element);
    put(this.place, elements.length ? h("ul", { class: "cards" }, elements) : h("p", { class: "empty" }, "Nothing to label."));
    if (active.isConnected && this.place.contains(active) && active !== this.place) active.focus({ preventScroll: true });
    if (!this.wanting || !elements.length) return;
    this.wanting = false;
    if ([this.place, document.body].includes(document.activeElement)) this.cards.values().next().value.right.focus();
  }

  card(one) {
    const field = h("input", { type: "text", "aria-label": `What step ${one.number} really was`, placeholder: "another class", onfocus: () => this.view.shared.fillNames(this.view.name) });
    field.setAttribute("list", "class-names");
    const image = h("span", { class: "place" });
    const said = h("small", { class: "was" });
    const right = h("button", { type: "button", "aria-label": `Step ${one.number} is ${one.answer}`, onclick: (event) => this.tell(card, one.answer, event.detail === 0) }, "Right");
    const form = h("form", { class: "row", onsubmit: (event) => { event.preventDefault(); if (field.value.trim()) this.tell(card, field.value.trim(), true); } },
      right, field, h("button", { type: "submit", "aria-label": `Set the label of step ${one.number}` }, "Set"));
    const element = h("li", { class: "card" }, image,
      h("div", {}, h("p", {}, h("b", {}, one.answer), ` ${score(one.confidence)}`, h("small", {}, ` step ${count(one.number)}${one.source ? `, ${one.source}` : ""}`), said), form));
    let pictured;
    const show = (now) => {
      if (pictured === now.picture) return;
      pictured = now.picture;
      put(image, thumb(this.view.name, now.picture ? now.number : null, `step ${now.number}`));
    };
    const card = { number: one.number, answer: one.answer, element, form, field, right, said, show, busy: false };
    show(one);
    this.cards.set(one.number, card);
    return card;
  }

  async tell(card, label, byKey) {
    if (card.busy) return;
    card.busy = true;
    try {
      await ask(this.view.path("/labels"), { method: "POST", json: { labels: [{ step: card.number, label }] } });
      this.told.add(card.number);
      note(`Step ${card.number} was ${label}.`);
      this.leave(card, label, byKey);
    } catch (error) {
      card.busy = false;
      complain("Label", error);
    }
    this.view.refresh(true);
    this.view.shared.refreshList();
  }

  // The card stays where it is, answered; who was in it goes on to the next.
  leave(card, label, byKey) {
    const active = document.activeElement;
    const inside = card.element.contains(active);
    const control = active === card.field ? "field" : "right";
    card.said.textContent = ` labelled ${label}`;
    card.element.classList.add("done");
    const all = [...this.cards.values()].filter((one) => one === card || (!this.told.has(one.number) && one.element.offsetParent));
    const next = all[all.indexOf(card) + 1] ?? all.find((one) => one !== card);
    if (inside && next) next[control].focus({ preventScroll: !byKey });
    card.form.inert = true;
    if (next) return;
    this.wanting = inside;
    if (inside) this.place.focus({ preventScroll: true });
    setTimeout(() => this.arrange(), byKey ? 0 : SECOND_CLICK);
  }
}
