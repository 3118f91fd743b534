// One stream. Each part is drawn again only when what it shows has changed.

import { request, streamPath, subscribe, token } from "/page/api.js";
import { bannerContent } from "/page/alarm_banner.js";
import { ClassifyPanel } from "/page/classify_panel.js";
import { confirmDialog, tokenForm } from "/page/dialogs.js";
import { h, isTyping, panel, replaceContent } from "/page/dom.js";
import { ExplanationPanel } from "/page/explanation_panel.js";
import { count } from "/page/format.js";
import { confusionsTable, snapshotsTable, sourcesTable } from "/page/history_tables.js";
import { LabelQueue } from "/page/label_queue.js";
import { drawLines } from "/page/line_chart.js";
import { MemoryPanel } from "/page/memory_panel.js";
import { notify, notifyError } from "/page/notifications.js";
import { StreamHeader } from "/page/stream_header.js";
import { tilesContent } from "/page/summary_tiles.js";

const REFRESH_PAUSE = 600; // ms between two refreshes, however fast the stream is

function chart(id, empty) {
  const element = h("div", { class: "plot", id });
  element.dataset.empty = empty;
  return element;
}

export class StreamView {
  // `app` has what all streams share: the list, the connection, the alarms that are read out.
  constructor(element, name, app) {
    Object.assign(this, { element, name, app, drawn: {}, ended: false });
    Object.assign(this, { isRefreshing: false, isWaiting: false, refreshAgain: false });
    this.build();
    this.unsubscribe = subscribe(name, {
      onOpen: () => {
        app.setConnected(true);
        this.drawn = {};
        this.refresh(true);
      },
      onEvent: (_, event) => this.onEvent(event),
      onLost: (error) => this.onLost(error),
    });
    this.refresh(true);
  }

  build() {
    this.header = new StreamHeader(this);
    this.classifyPanel = new ClassifyPanel(this, (result) => this.explanation.showResult(result));
    this.explanation = new ExplanationPanel(this, () => this.follow());
    this.memoryPanel = new MemoryPanel(this);
    const labels = h("div");
    this.labelQueue = new LabelQueue(labels, this);
    this.accuracy = chart(
      "accuracy",
      "No labels yet. When you label images, accuracy is drawn here against zero-shot.",
    );
    this.certainty = chart("sureness", "Nothing was answered yet.");
    this.parts = {
      chips: this.header.chips,
      banner: h("div", { class: "banners" }),
      tiles: h("div", { class: "tiles" }),
    };
    for (const name of ["memory", "confusions", "sources", "snapshots"]) this.parts[name] = h("div");
    const full = { class: "full" };
    replaceContent(
      this.element,
      this.header.element,
      this.parts.banner,
      this.parts.tiles,
      h(
        "div",
        { class: "grid" },
        panel("Accuracy", "Of the labelled answers, beside zero-shot on the same images.", {}, this.accuracy),
        panel(
          "Confidence and entropy",
          "Means over the last 20 answers. Entropy is a share of the largest possible.",
          {},
          this.certainty,
        ),
        panel("Classify", "", {}, this.classifyPanel.content),
        panel("Why", "", {}, this.explanation.element),
        panel(
          "Uncertain answers",
          "Recent answers with the smallest margin. The list does not move while you use it. " +
            "A label goes to the monitor only; no method sees it.",
          full,
          labels,
        ),
        panel("Memory", "", full, this.memoryPanel.finder, this.parts.memory),
        panel("Confusions", "", {}, this.parts.confusions),
        panel("Sources", "Undo removes all that the samples of a source taught.", {}, this.parts.sources),
        panel(
          "Snapshots",
          "Rolling back forgets what was learned since. Answers that were given stay as they are.",
          full,
          this.parts.snapshots,
        ),
      ),
    );
  }

  path(rest = "") {
    return streamPath(this.name, rest);
  }

  end() {
    this.ended = true;
    this.unsubscribe();
    this.classifyPanel.close();
  }

  onEvent(event) {
    if (event.what === "deleted") {
      this.app.onStreamGone(this.name, { message: "The stream was deleted." });
      return;
    }
    if (event.what === "classes") this.app.forgetClassNames();
    this.refresh();
  }

  onLost(error) {
    if (error?.status === 401) this.askForToken();
    else if (error?.status === 404) this.app.onStreamGone(this.name, error);
    else this.app.setConnected(false);
  }

  // The form stands in the place of the stream; the rest of the page stays usable.
  askForToken() {
    if (this.ended) return;
    this.end();
    const wrong = token.get(this.name) !== "";
    token.set("", this.name);
    this.app.setConnected(true);
    const onToken = (value) => {
      token.set(value, this.name);
      this.app.reopen(this.name);
    };
    const [title, text] = this.app.isLocked()
      ? ["This stream asks for a token", "Its own token opens this stream; the server's token opens all streams."]
      : ["This stream has a token of its own", "It was returned when the stream was created."];
    const form = tokenForm({ id: "stream-token", title, text, wrong, onToken });
    replaceContent(this.element, h("h1", {}, this.name), form);
    if (wrong) this.element.querySelector("input").focus();
  }

  // Send a request, show how it went, and refresh.
  async act(action, path, { json, message, method = "POST" }) {
    try {
      const response = await request(this.path(path), { method, json });
      notify(typeof message === "function" ? message(response) : message);
    } catch (error) {
      notifyError(action, error);
    }
    await this.refresh(true);
    this.app.refreshList();
  }

  // At once after an action of the user, else after a pause. One refresh at a time.
  async refresh(now = false) {
    if (this.ended) return;
    if (this.isRefreshing || (!now && this.isWaiting)) {
      this.refreshAgain = true;
      return;
    }
    this.isRefreshing = true;
    try {
      const paths = [this.path("/overview"), this.memoryPanel.path, this.path("/last-prediction")];
      const [overview, memory, last] = await Promise.all(paths.map((path) => request(path)));
      if (!this.ended) await this.draw(overview, memory, last.answer);
    } catch (error) {
      if (error.status === 401) this.askForToken();
      else if (error.status && error.status !== 404 && error.status !== 503)
        notify(error.message, "bad", error.hint);
    } finally {
      this.isRefreshing = false;
    }
    this.isWaiting = true;
    setTimeout(() => this.endPause(), REFRESH_PAUSE);
  }

  endPause() {
    this.isWaiting = false;
    if (!this.refreshAgain) return;
    this.refreshAgain = false;
    this.refresh();
  }

  // Draw a part if its data changed; not while the user types in it or holds down one of its buttons.
  drawPart(name, data, content) {
    const key = JSON.stringify(data);
    const element = this.parts[name];
    if (this.drawn[name] === key || isTyping(element)) return;
    if (element.matches(":active")) {
      this.refreshAgain = true;
      return;
    }
    this.drawn[name] = key;
    replaceContent(element, content());
  }

  async draw(overview, memory, lastAnswer) {
    const { method, preset, encoder, classes, alarms, warnings, snapshots, curves } = overview;
    const status = [overview.paused, overview.fallen_back, overview.problem];
    this.drawPart("chips", [method, preset, encoder, classes, status], () => this.header.chipsContent(overview));
    this.drawPart("banner", [alarms, warnings, status, alarms.length && snapshots], () => {
      this.app.readOut(alarms.map((alarm) => `${alarm.kind}: ${alarm.detail}`).join(" "));
      return bannerContent(overview, this);
    });
    this.header.updateButtons(overview);
    const figures = [overview.counts, overview.seen, overview.signals, overview.not_learned];
    this.drawPart("tiles", [...figures, curves.confidence.at(-1)], () => tilesContent(overview));
    this.labelQueue.update(overview.unsure);
    this.drawPart("memory", memory, () => this.memoryPanel.content(memory));
    this.drawPart("confusions", overview.confusions, () => confusionsTable(overview.confusions));
    this.drawPart("sources", overview.sources, () =>
      sourcesTable(overview.sources, (one) => this.undoSource(one)),
    );
    this.drawPart("snapshots", snapshots, () =>
      snapshotsTable(snapshots, {
        onRollBack: (snapshot) => this.rollBack(snapshot),
        onRemove: (snapshot) => this.removeSnapshot(snapshot),
      }),
    );
    await this.explanation.showLast(lastAnswer);
    this.drawCharts = () => this.drawCurves(method, curves);
    await this.drawCharts();
  }

  drawCurves(method, curves) {
    const hasPlotly = this.app.hasPlotly();
    const accuracy = [
      { name: method, x: curves.labelled, y: curves.accuracy, colour: "--first" },
      { name: "zero-shot", x: curves.labelled, y: curves.zero_shot, colour: "--second", dash: "dot" },
    ];
    const certainty = [
      { name: "confidence", x: curves.step, y: curves.confidence, colour: "--first" },
      { name: "entropy", x: curves.step, y: curves.entropy, colour: "--third", dash: "dash" },
    ];
    return Promise.all([
      drawLines(this.accuracy, accuracy, hasPlotly),
      drawLines(this.certainty, certainty, hasPlotly),
    ]);
  }

  // Colours come from the style sheet, so that charts are drawn again when the colour scheme changes.
  redrawCharts() {
    this.drawCharts?.();
  }

  // Show the newest answer instead of the selected one.
  follow() {
    this.explanation.unpin();
    this.classifyPanel.clearSelection();
    this.refresh(true);
  }

  async remove() {
    const text = "The stream and its files are removed for good.";
    if (!(await confirmDialog(`Delete ${this.name}?`, text, "Delete", true))) return;
    try {
      await request(this.path(), { method: "DELETE" });
      this.app.onStreamGone(this.name, { message: `${this.name} was deleted.` });
    } catch (error) {
      notifyError("Delete", error);
      this.app.refreshList();
    }
  }

  async undoSource({ name, steps }) {
    const text =
      "The stream goes back to before its first sample and learns the others again: " +
      `${count(steps)} samples are taken out.`;
    if (!(await confirmDialog(`Undo ${name}?`, text, "Undo", true))) return;
    await this.act("Undo", "/forget-source", { json: { source: name }, message: `What ${name} taught is undone.` });
  }

  async rollBack({ id, number }) {
    const text =
      "What was learned since is forgotten. Answers that were given stay as they are. " +
      "You can still go to a later snapshot.";
    if (!(await confirmDialog(`Roll back to event ${count(number)}?`, text, "Roll back", true))) return;
    const message = `The stream knows what it knew at event ${count(number)}.`;
    await this.act("Roll back", "/roll-back", { json: { snapshot: id }, message });
  }

  async removeSnapshot({ id, number, note }) {
    const what = `the snapshot of event ${count(number)}${note ? `, “${note}”` : ""}`;
    const text = "You can no longer roll back to it. What the stream knows now stays as it is.";
    if (!(await confirmDialog(`Remove ${what}?`, text, "Remove", true))) return;
    const path = `/snapshots/${encodeURIComponent(id)}`;
    await this.act("Remove", path, { method: "DELETE", message: `Removed ${what}.` });
  }
}
