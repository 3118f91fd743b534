// Uncertain answers to label. While the user is among the cards, by key or pointer, no card moves or goes.

import { request } from "/page/api.js";
import { emptyText, h, replaceContent } from "/page/dom.js";
import { LabelCard } from "/page/label_card.js";
import { notify, notifyError } from "/page/notifications.js";

const MAX_CARDS = 12;
const SECOND_CLICK = 700; // ms in which a second click may still be meant for the card that was there

export class LabelQueue {
  constructor(element, view) {
    Object.assign(this, { element, view, cards: new Map(), items: [], labelled: new Set() });
    this.pointerInside = false;
    this.focusFirst = false; // when new cards come, the first gets the focus
    element.tabIndex = -1;
    element.addEventListener("pointerenter", (event) => {
      this.pointerInside = event.pointerType !== "touch";
    });
    element.addEventListener("pointerleave", () => {
      this.pointerInside = false;
      this.update(this.items);
    });
    element.addEventListener("focusout", () => setTimeout(() => this.update(this.items)));
    element.addEventListener("keydown", (event) => {
      if (event.repeat && event.key === "Enter") event.preventDefault(); // a key held down is one press
    });
  }

  isInUse() {
    const hasFocus = this.element.querySelector(":focus-visible") !== null;
    return this.cards.size > 0 && (this.pointerInside || hasFocus);
  }

  update(items) {
    this.items = items;
    if (!this.isInUse()) return this.arrange();
    const list = this.element.querySelector("ul");
    for (const item of this.openItems()) {
      const card = this.cards.get(item.number);
      if (card) card.update(item);
      else if (this.cards.size < MAX_CARDS) list.append(this.addCard(item).element);
    }
    return undefined;
  }

  // What was labelled here is not asked again, even if an older response still lists it.
  openItems() {
    return this.items.filter((item) => !this.labelled.has(item.number));
  }

  arrange() {
    const items = this.openItems();
    const key = JSON.stringify(items);
    if (key === this.key && this.cards.size === items.length) return;
    this.key = key;
    const active = document.activeElement;
    const before = this.cards;
    this.cards = new Map();
    for (const item of items) {
      const card = before.get(item.number);
      if (card?.answer === item.answer) {
        card.update(item);
        this.cards.set(item.number, card);
      } else this.addCard(item);
    }
    const elements = [...this.cards.values()].map((card) => card.element);
    const content = elements.length ? h("ul", { class: "cards" }, elements) : emptyText("Nothing to label.");
    replaceContent(this.element, content);
    this.restoreFocus(active);
  }

  restoreFocus(active) {
    if (active.isConnected && this.element.contains(active) && active !== this.element) {
      active.focus({ preventScroll: true });
    }
    if (!this.focusFirst || !this.cards.size) return;
    this.focusFirst = false;
    if ([this.element, document.body].includes(document.activeElement)) {
      this.cards.values().next().value.right.focus();
    }
  }

  addCard(item) {
    const card = new LabelCard(item, this.view.name, {
      onLabel: (...label) => this.sendLabel(...label),
      onFieldFocus: () => this.view.app.loadClassNames(this.view.name),
    });
    this.cards.set(item.number, card);
    return card;
  }

  async sendLabel(card, label, byKey) {
    if (card.busy) return;
    card.busy = true;
    try {
      const json = { labels: [{ step: card.number, label }] };
      await request(this.view.path("/labels"), { method: "POST", json });
      this.labelled.add(card.number);
      notify(`Step ${card.number} was ${label}.`);
      this.finishCard(card, label, byKey);
    } catch (error) {
      card.busy = false;
      notifyError("Label", error);
    }
    this.view.refresh(true);
    this.view.app.refreshList();
  }

  // The labelled card stays in its place; the focus goes on to the next card.
  finishCard(card, label, byKey) {
    const active = document.activeElement;
    const hasFocus = card.element.contains(active);
    const control = active === card.field ? "field" : "right";
    card.markLabelled(label);
    const isOpen = (one) => !this.labelled.has(one.number) && one.element.offsetParent;
    const cards = [...this.cards.values()].filter((one) => one === card || isOpen(one));
    const next = cards[cards.indexOf(card) + 1] ?? cards.find((one) => one !== card);
    if (hasFocus && next) next[control].focus({ preventScroll: !byKey });
    card.form.inert = true;
    if (next) return;
    this.focusFirst = hasFocus;
    if (hasFocus) this.element.focus({ preventScroll: true });
    setTimeout(() => this.arrange(), byKey ? 0 : SECOND_CLICK);
  }
}
