// The samples that the method keeps per class, a page of classes at a time.

import { button, emptyText, h, hintText, meter } from "/page/dom.js";
import { count } from "/page/format.js";
import { thumbnail } from "/page/thumbnails.js";

const PAGE_SIZE = 12; // classes
const MAX_IMAGES = 12; // per class
const TYPING_PAUSE = 200; // ms

export class MemoryPanel {
  constructor(view) {
    Object.assign(this, { view, offset: 0, query: "" });
    this.finder = h("div", { class: "row finder" }, this.searchField());
  }

  get path() {
    return this.view.path(
      `/memory?offset=${this.offset}&count=${PAGE_SIZE}&find=${encodeURIComponent(this.query)}`,
    );
  }

  searchField() {
    let timer;
    const search = () => {
      this.query = field.value;
      this.offset = 0;
      this.view.refresh(true);
    };
    const oninput = () => {
      clearTimeout(timer);
      timer = setTimeout(search, TYPING_PAUSE);
    };
    const field = h("input", {
      type: "search",
      id: "find",
      placeholder: "find a class",
      "aria-label": "Find a class",
      oninput,
    });
    return field;
  }

  turnPage(classes) {
    this.offset = Math.max(0, this.offset + classes);
    this.view.refresh(true);
  }

  content(page) {
    const rows = page.classes.map((row) => this.classRow(row, page.memories));
    return [
      hintText(this.summary(page)),
      rows.length ? h("ul", { class: "list" }, rows) : emptyText("No class name contains this."),
      page.found > PAGE_SIZE ? this.pager(rows.length, page.found) : null,
    ];
  }

  summary({ memories, filled, total }) {
    if (!memories.length) return "This method keeps no samples.";
    const parts = memories.map(
      (memory, k) => `${memory.name}: ${count(filled[k])} of ${count(total)} classes have samples`,
    );
    return `${parts.join("; ")}. Most answered first.`;
  }

  classRow(row, memories) {
    const images = row.images.slice(0, MAX_IMAGES);
    return h(
      "li",
      { class: "held" },
      h("b", { title: row.name }, row.name),
      h(
        "span",
        { class: "fills" },
        memories.map((memory, k) => this.fill(memory, row.held[k], k)),
      ),
      h("small", { class: "figure" }, `answered ${count(row.answered)}×`),
      h(
        "span",
        { class: "thumbs" },
        images.map((step) => thumbnail(this.view.name, step, `step ${step}, kept for ${row.name}`)),
      ),
    );
  }

  fill(memory, kept, k) {
    return h(
      "span",
      { title: `${memory.name}: ${kept} of ${memory.room}` },
      meter(kept / memory.room, k ? "other" : ""),
      h("small", {}, `${memory.name} ${kept}/${memory.room}`),
    );
  }

  pager(shown, found) {
    const last = Math.min(this.offset + shown, found);
    const previous = { "data-key": "before", disabled: this.offset === 0 };
    const next = { "data-key": "after", disabled: last >= found };
    return h(
      "div",
      { class: "row pager" },
      button("Previous", previous, () => this.turnPage(-PAGE_SIZE)),
      h("span", {}, `${count(this.offset + 1)} – ${count(last)} of ${count(found)}`),
      button("Next", next, () => this.turnPage(PAGE_SIZE)),
    );
  }
}
