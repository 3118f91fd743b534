// One stream: its parts are drawn anew when what they show has changed, and only then.

import { ask, listen, picture, streamPath, token } from "/page/asking.js";
import { complain, confirm, count, h, isTyping, meter, note, panel, press, put, score, share, standing, usable } from "/page/building.js";
import { curves } from "/page/charts.js";
import { askNote, tokenForm } from "/page/creating.js";
import { explained } from "/page/graph.js";
import { Unsure, thumb } from "/page/labelling.js";

const PAUSE = 600; // ms between two looks, however fast the stream is
const ROWS = 12; // classes on a page of the memory
const WHY_NOT = { duplicate: "seen before", quota: "over its source's quota" };
const PAUSED = "Paused: it answers, and learns nothing.";

const mayNotPause = (told) => {
  if (told.fallen_back) return "It learns nothing already: it answers zero-shot until it is resumed.";
  return told.paused ? "It is paused already." : "";
};

export class StreamView {
  constructor(place, name, shared) {
    Object.assign(this, { place, name, shared, offset: 0, find: "", drops: [], shown: {}, ended: false, due: false, busy: false });
    this.build();
    this.stop = listen(name, {
      onOpen: () => { shared.connected(true); this.shown = {}; this.refresh(true); },
      onEvent: (_, told) => this.heard(told),
      onLost: (error) => {
        if (error?.status === 401) this.lock();
        else if (error?.status === 404) shared.gone(name, error);
        else shared.connected(false);
      },
    });
    this.refresh(true);
  }

  end() {
    this.ended = true;
    this.stop();
    for (const one of this.drops) URL.revokeObjectURL(one.address);
  }

  path(rest = "") { return streamPath(this.name, rest); }

  // The stream asks for a token: the form is in its own place, and all else stays usable.
  lock() {
    if (this.ended) return;
    this.end();
    const wrong = token.get(this.name) !== "";
    token.set("", this.name);
    this.shared.connected(true);
    const given = (word) => { token.set(word, this.name); this.shared.reopen(this.name); };
    const [title, words] = this.shared.locked() ? ["This stream asks for a token", "Its own opens it alone; the server's opens all."] : ["This stream has a token of its own", "It was told when the stream was made."];
    put(this.place, h("h1", {}, this.name), tokenForm({ id: "stream-token", title, words, wrong, given }));
    if (wrong) this.place.querySelector("input").focus();
  }

  // Do something, say how it went, look again.
  async act(what, path, json, said, method = "POST") {
    try {
      const told = await ask(this.path(path), { method, json });
      note(typeof said === "function" ? said(told) : said);
    } catch (error) {
      complain(what, error);
    }
    await this.refresh(true);
    this.shared.refreshList();
  }

  build() {
    const part = (name, props = {}) => (this[name] = h("div", { ...props }));
    part("chips", { class: "chips" }); part("banner", { class: "banners" }); part("tiles", { class: "tiles" });
    part("accuracy", { class: "plot" });
    part("sureness", { class: "plot" });
    this.accuracy.dataset.empty = "No labels yet. Tell what some pictures turned out to be, and accuracy is drawn here against zero-shot.";
    this.sureness.dataset.empty = "Nothing was answered yet.";
    part("results", { class: "results", "aria-live": "polite" }); part("why"); part("unsure"); part("memory"); part("confused"); part("sources"); part("snapshots");
    this.accuracy.id = "accuracy"; this.sureness.id = "sureness";
    this.labelling = new Unsure(this.unsure, this);
    put(this.place, this.head(), this.banner, this.tiles,
      h("div", { class: "grid" },
        panel("Accuracy", "Of answers that were labelled, beside what zero-shot says to the same pictures.", {}, this.accuracy),
        panel("Confidence and entropy", "Means over the last 20 answers; entropy as a share of the largest.", {}, this.sureness),
        panel("Classify", "", {}, this.dropZone(), this.results),
        panel("Why", "", {}, this.why),
        panel("Unsure", "Late answers with the smallest margin; the list stands still while you are in it. A label goes to the monitor; no method ever sees it.", { class: "full" }, this.unsure),
        panel("What is held", "", { class: "full" }, this.finder(), this.memory),
        panel("Confusions", "", {}, this.confused),
        panel("Sources", "Undo makes the stream what it were had the source never come.", {}, this.sources),
        panel("Snapshots", "Going back forgets what was learned since; what was answered stays answered.", { class: "full" }, this.snapshots)));
  }

  heard(told) {
    if (told.what === "deleted") return this.shared.gone(this.name, { message: "The stream was deleted." });
    if (told.what === "classes") this.shared.names = null;
    this.refresh();
    return undefined;
  }

  // Look again: at once where somebody acted, else when a moment has passed. One look at a time.
  async refresh(now = false) {
    if (this.ended) return;
    if (this.busy || (!now && this.waiting)) { this.due = true; return; }
    this.busy = true;
    try {
      const page = `/memory?offset=${this.offset}&count=${ROWS}&find=${encodeURIComponent(this.find)}`;
      const [told, held, last] = await Promise.all([ask(this.path("/overview")), ask(this.path(page)), ask(this.path("/last"))]);
      if (!this.ended) await this.draw(told, held, last.answer);
    } catch (error) {
      if (error.status === 401) this.lock();
      else if (error.status && error.status !== 404 && error.status !== 503) note(error.message, "bad", error.hint);
    } finally {
      this.busy = false;
    }
    this.waiting = true;
    setTimeout(() => {
      this.waiting = false;
      if (this.due) { this.due = false; this.refresh(); }
    }, PAUSE);
  }

  // Draw a part if what it shows has changed; not while somebody writes in it, nor while a button of it is held down.
  part(name, data, draw) {
    const key = JSON.stringify(data);
    if (this.shown[name] === key || isTyping(this[name])) return;
    if (this[name].matches(":active")) { this.due = true; return; }
    this.shown[name] = key;
    put(this[name], draw());
  }

  async draw(told, held, last) {
    const { plotly } = this.shared;
    const switches = [told.paused, told.fallen_back, told.problem];
    this.part("chips", [told.method, told.preset, told.encoder, told.classes, switches], () => this.drawChips(told));
    this.part("banner", [told.alarms, told.warnings, switches, told.alarms.length && told.snapshots], () => this.drawBanner(told));
    usable(this.pause, mayNotPause(told));
    usable(this.resume, told.paused || told.fallen_back ? "" : "It is learning already.");
    this.part("tiles", [told.counts, told.seen, told.signals, told.not_learned, told.curves.confidence.at(-1)], () => this.drawTiles(told));
    this.labelling.draw(told.unsure);
    this.part("memory", held, () => this.drawMemory(held));
    this.part("confused", told.confusions, () => this.drawConfusions(told.confusions));
    this.part("sources", told.sources, () => this.drawSources(told.sources));
    this.part("snapshots", told.snapshots, () => this.drawSnapshots(told.snapshots));
    if (!this.pinned) await this.drawWhy(last, "the last answer");
    const c = told.curves;
    this.curves = () => Promise.all([
      curves(this.accuracy, [
        { name: told.method, x: c.labelled, y: c.accuracy, colour: "--first" },
        { name: "zero-shot", x: c.labelled, y: c.zero_shot, colour: "--second", dash: "dot" }], plotly()),
      curves(this.sureness, [
        { name: "confidence", x: c.step, y: c.confidence, colour: "--first" },
        { name: "entropy", x: c.step, y: c.entropy, colour: "--third", dash: "dash" }], plotly()),
    ]);
    await this.curves();
  }

  redraw() { this.curves?.(); }

  // Pause and Resume are two buttons: a press means what it says, whatever somebody else pressed a moment ago.
  head() {
    const button = (key, label, action, kind = "") => {
      const one = h("button", { type: "button", "data-key": key, class: kind }, label);
      press(one, action);
      return one;
    };
    this.pause = button("pause", "Pause", () => this.act("Pause", "/pause", undefined, PAUSED));
    this.resume = button("resume", "Resume", () => this.act("Resume", "/resume", undefined, "Learning again."));
    for (const one of [this.pause, this.resume]) usable(one, "One moment: the stream has not told yet whether it learns.");
    return h("div", { class: "head" },
      h("div", {}, h("h1", {}, this.name), this.chips),
      h("div", { class: "row" }, this.pause, this.resume,
        button("snap", "Snapshot", async () => {
          const words = await askNote("Make a snapshot", "It can be gone back to. With a note it is kept until you remove it; without one it goes when newer ones come.", "Make it");
          if (words !== null) this.act("Snapshot", "/snapshots", { note: words }, (one) => `Snapshot of event ${count(one.number)} is on disk.`);
        }),
        button("reset", "Reset", async () => {
          if (await confirm("Forget what was learned?", "The stream starts again without knowledge. Snapshots stay, and one can be gone back to.", "Reset", true)) this.act("Reset", "/reset", undefined, "Forgotten.");
        }),
        button("delete", "Delete", () => this.remove(), "danger")));
  }

  drawChips(told) {
    const [kind, words] = standing(told);
    return [h("span", { class: `pill ${kind}` }, words),
      h("span", {}, told.method + (told.preset && told.preset !== "default" ? `@${told.preset}` : "")),
      h("span", {}, told.encoder ?? "features"), h("span", {}, `${count(told.classes)} classes`)];
  }

  async remove() {
    if (!(await confirm(`Delete ${this.name}?`, "The stream and its files are removed for good.", "Delete", true))) return;
    try {
      await ask(this.path(), { method: "DELETE" });
      this.shared.gone(this.name, { message: `${this.name} was deleted.` });
    } catch (error) {
      complain("Delete", error);
      this.shared.refreshList();
    }
  }

  drawBanner(told) {
    this.shared.alarm(told.alarms.map((one) => `${one.kind}: ${one.detail}`).join(" "));
    const before = (alarm) => told.snapshots.filter((one) => one.number < alarm.since).reduce((a, b) => (a && a.number >= b.number ? a : b), null);
    const alarms = told.alarms.map((one) => {
      const newest = before(one);
      const pause = h("button", { type: "button", "data-key": `p-${one.kind}` }, "Pause");
      press(pause, () => this.act("Pause", "/pause", undefined, PAUSED));
      usable(pause, mayNotPause(told));
      return h("div", { class: "banner bad" },
        h("p", {}, h("b", {}, `${one.kind[0].toUpperCase()}${one.kind.slice(1)} since event ${count(one.since)}. `), one.detail),
        h("div", { class: "row" }, pause,
          newest ? h("button", { type: "button", "data-key": `b-${one.kind}`, onclick: () => this.goBack(newest) }, `Roll back to event ${count(newest.number)}`) : null));
    });
    const rest = [told.fallen_back && "It answers zero-shot and learns nothing until it is resumed.", told.problem && `Pictures are not taken: ${told.problem}`, ...told.warnings].filter(Boolean);
    return [alarms, rest.map((text) => h("div", { class: "banner wait" }, h("p", {}, text)))];
  }

  drawTiles(told) {
    const { counts } = told;
    const gain = counts.labelled ? (100 * (counts.right - counts.zero_shot_right)) / counts.labelled : null;
    const tile = (title, value, below, kind = "") => h("div", { class: "tile" }, h("span", {}, title), h("b", { class: kind }, value), h("small", {}, below));
    const left = Object.entries(told.not_learned).filter(([, times]) => times > 0).map(([why, times]) => `${count(times)} ${WHY_NOT[why] ?? why}`);
    const signals = Object.entries(told.signals).map(([name, value]) => `${name} ${value.toFixed(2)}`).join(" · ");
    return [
      tile("Answered", count(counts.answered), `${count(told.seen)} learned${left.length ? `; ${left.join(", ")}` : ""}`),
      tile("Accuracy", counts.labelled ? share(counts.right / counts.labelled) : "–", counts.labelled ? `${count(counts.labelled)} labelled` : "no labels yet"),
      tile("Against zero-shot", gain === null ? "–" : `${gain >= 0 ? "+" : "−"}${Math.abs(gain).toFixed(1)}`, gain === null ? "points, once labels come" : `points; zero-shot ${share(counts.zero_shot_right / counts.labelled)}`, !gain ? "" : gain < 0 ? "bad" : "good"),
      tile("Agreement", counts.answered ? share(counts.agreed / counts.answered, 0) : "–", "with zero-shot"),
      tile("Confidence", told.curves.confidence.length ? share(told.curves.confidence.at(-1), 0) : "–", signals || "of the last 20 answers"),
    ];
  }

  // Pictures to classify.
  dropZone() {
    const files = h("input", { type: "file", accept: "image/*", multiple: true, id: "files", class: "spoken", onchange: () => { this.drop(files.files); files.value = ""; } });
    this.learns = h("input", { type: "checkbox", id: "learns" });
    const zone = h("label", { class: "drop", htmlFor: "files", tabIndex: 0, role: "button",
      onkeydown: (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); files.click(); } },
      ondragover: (event) => { event.preventDefault(); zone.classList.add("over"); },
      ondragleave: () => zone.classList.remove("over"),
      ondrop: (event) => { event.preventDefault(); zone.classList.remove("over"); this.drop(event.dataTransfer.files); },
    }, h("b", {}, "Drop pictures here"), h("span", {}, "or choose files"));
    files.tabIndex = -1;
    return [zone, files, h("p", { class: "row small" }, this.learns, h("label", { htmlFor: "learns" }, "Learn from them too, as source “page”"))];
  }

  async drop(files) {
    const given = [...files].slice(0, 64);
    if (!given.length) return;
    const learn = this.learns.checked;
    for (const file of given) {
      const form = new FormData();
      form.append("pictures", file);
      const query = learn ? "learn=true&source=page" : "learn=false";
      try {
        const told = await ask(this.path(`/predict?why=true&top=8&${query}`), { method: "POST", form });
        const one = { name: file.name, address: URL.createObjectURL(file), told: told.predictions[0] };
        if (one.told.step !== null) {
          const last = await ask(this.path("/last")).catch(() => null); // which holds more than the answer: who spoke for it
          if (last?.answer?.step === one.told.step) one.last = last.answer;
        }
        this.drops.unshift(one);
        for (const old of this.drops.splice(8)) URL.revokeObjectURL(old.address);
        this.drawDrops();
        await this.explain(this.drops[0]);
      } catch (error) {
        complain(file.name, error);
      }
    }
  }

  drawDrops() {
    put(this.results, this.drops.map((one) => h("button", { type: "button", class: `result ${this.pinned === one ? "on" : ""}`, "data-key": one.address, "aria-pressed": String(this.pinned === one), onclick: () => this.explain(one) },
      h("img", { src: one.address, alt: "", class: "thumb big", width: 64, height: 64 }),
      h("span", { class: "bars" }, one.told.answers.slice(0, 3).map((answer, k) => h("span", { class: k ? "bar-row" : "bar-row first" }, h("span", { title: answer.label }, answer.label), meter(answer.score), h("span", { class: "figure" }, score(answer.score)))),
        h("small", {}, `${one.name}${one.told.learned ? `; learned as step ${one.told.step}` : one.told.step === null ? "; only looked at" : `; not learned${one.told.reason ? `: ${WHY_NOT[one.told.reason] ?? one.told.reason}` : ""}`}`)))));
  }

  async explain(one) {
    this.pinned = one;
    this.drawDrops();
    if (one.last) { await this.drawWhy(one.last, one.name); return; }
    const why = one.told.why ?? {};
    const told = {
      step: one.told.step, answers: one.told.answers, zero_shot: null,
      hyper_classes: Object.fromEntries(Object.entries(why.hyper_classes ?? {}).map(([space, all]) => [space, all.slice(0, 12).map((each) => ({ ...each, size: each.members.length, members: each.members.slice(0, 10) }))])),
      inliers: Object.fromEntries(Object.entries(why.inliers ?? {}).map(([space, all]) => [space, [all.length, all.slice(0, 24)]])),
      votes: {}, reliability: why.reliability ?? {},
    };
    await this.drawWhy(told, one.name, one.told.step === null
      ? "It was looked at only, so it is no part of the stream: what zero-shot says and which pictures spoke is told of those sent to learn from."
      : "Others came right after it: what zero-shot says and which pictures spoke is told of the last one only.");
  }

  async drawWhy(told, what, words = "") {
    const key = JSON.stringify([told, what]);
    if (this.shown.why === key) return;
    const follow = () => { this.pinned = null; this.drawDrops(); this.refresh(true); };
    const kin = (label) => ask(this.path(`/kin?label=${encodeURIComponent(label)}`));
    const drawn = told ? await explained(told, { what, words, kin, thumb: (step) => thumb(this.name, step, `step ${step}`), follow: this.pinned ? follow : null })
      : h("p", { class: "empty" }, "No picture since the server started. The next answer, or a picture dropped beside, is explained here.");
    this.shown.why = key;
    put(this.why, drawn);
  }

  finder() {
    let clock;
    const field = h("input", { type: "search", id: "find", placeholder: "find a class", "aria-label": "Find a class", oninput: () => {
      clearTimeout(clock);
      clock = setTimeout(() => { this.find = field.value; this.offset = 0; this.refresh(true); }, 200);
    } });
    return h("div", { class: "row finder" }, field);
  }

  drawMemory(held) {
    const rooms = held.memories;
    const turn = (by) => { this.offset = Math.max(0, this.offset + by); this.refresh(true); };
    const rows = held.classes.map((one) => h("li", { class: "held" },
      h("b", { title: one.name }, one.name), h("span", { class: "fills" }, rooms.map((room, k) => h("span", { title: `${room.name}: ${one.held[k]} of ${room.room}` }, meter(one.held[k] / room.room, k ? "other" : ""), h("small", {}, `${room.name} ${one.held[k]}/${room.room}`)))),
      h("small", { class: "figure" }, `answered ${count(one.answered)}×`),
      h("span", { class: "thumbs" }, one.pictures.slice(0, 12).map((step) => thumb(this.name, step, `step ${step}, held for ${one.name}`)))));
    const last = Math.min(this.offset + rows.length, held.found);
    return [
      rooms.length ? h("p", { class: "hint" }, `${rooms.map((room, k) => `${room.name}: ${count(held.filled[k])} of ${count(held.total)} classes hold samples`).join("; ")}. Most answered first.`) : h("p", { class: "hint" }, "This method holds nothing."),
      rows.length ? h("ul", { class: "list" }, rows) : h("p", { class: "empty" }, "No class has this in its name."),
      held.found > ROWS ? h("div", { class: "row pager" },
        h("button", { type: "button", "data-key": "before", disabled: this.offset === 0, onclick: () => turn(-ROWS) }, "Before"),
        h("span", {}, `${count(this.offset + 1)} – ${count(last)} of ${count(held.found)}`),
        h("button", { type: "button", "data-key": "after", disabled: last >= held.found, onclick: () => turn(ROWS) }, "After")) : null,
    ];
  }

  table(heads, rows, empty) {
    if (!rows.length) return h("p", { class: "empty" }, empty);
    return h("div", { class: "scroll" }, h("table", {}, h("thead", {}, h("tr", {}, heads.map((one) => h("th", { scope: "col" }, one)))), h("tbody", {}, rows)));
  }

  drawConfusions(pairs) {
    const most = Math.max(1, ...pairs.map((one) => one.count));
    return this.table(["was", "answered", "times"], pairs.map((one) => h("tr", {}, h("td", {}, one.label), h("td", {}, one.answer), h("td", { class: "times" }, meter(one.count / most, "other"), h("span", { class: "figure" }, count(one.count))))), "None among the labelled answers.");
  }

  drawSources(sources) {
    return this.table(["source", "since step", "samples", ""], sources.map((one) => h("tr", {}, h("td", {}, one.name), h("td", { class: "figure" }, count(one.first)), h("td", { class: "figure" }, count(one.steps)),
      h("td", {}, h("button", { type: "button", "data-key": `u-${one.name}`, "aria-label": `Undo ${one.name}`, onclick: async () => {
        if (await confirm(`Undo ${one.name}?`, `The stream goes back to before its first sample and learns the others again: ${count(one.steps)} samples are taken out.`, "Undo", true)) this.act("Undo", "/undo", { source: one.name }, `What ${one.name} taught is undone.`);
      } }, "Undo")))), "No sample came with a source.");
  }

  async goBack(one) {
    if (await confirm(`Roll back to event ${count(one.number)}?`, "What was learned since is forgotten; what was answered stays answered. A later snapshot can still be gone to.", "Roll back", true)) {
      await this.act("Roll back", "/roll-back", { snapshot: one.id }, `Back at what event ${count(one.number)} knew.`);
    }
  }

  async removeSnapshot(one) {
    const what = `the snapshot of event ${count(one.number)}${one.note ? `, “${one.note}”` : ""}`;
    if (await confirm(`Remove ${what}?`, "It can no longer be gone back to. What the stream knows now stays as it is.", "Remove", true)) {
      await this.act("Remove", `/snapshots/${encodeURIComponent(one.id)}`, undefined, `Removed ${what}.`, "DELETE");
    }
  }

  drawSnapshots(snapshots) {
    return this.table(["event", "note", ""], snapshots.slice(0, 30).map((one) => h("tr", {}, h("td", { class: "figure" }, count(one.number)), h("td", {}, one.note || h("small", {}, one.number ? "made by itself" : "the empty stream")),
      h("td", {}, h("div", { class: "row last" }, h("button", { type: "button", "data-key": `s-${one.id}`, "aria-label": `Roll back to event ${one.number}`, onclick: () => this.goBack(one) }, "Roll back"),
        h("button", { type: "button", class: "danger", "data-key": `x-${one.id}`, "aria-label": `Remove the snapshot of event ${one.number}`, onclick: () => this.removeSnapshot(one) }, "Remove"))))), "None yet.");
  }
}
