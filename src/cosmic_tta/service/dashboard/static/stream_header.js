// The head of a stream: its name, its settings, and the buttons that act on it.

import { onPress, setDisabledReason } from "/page/buttons.js";
import { confirmDialog, noteDialog } from "/page/dialogs.js";
import { h } from "/page/dom.js";
import { count } from "/page/format.js";
import { PAUSED_MESSAGE, pauseDisabledReason, resumeDisabledReason, statusLabel } from "/page/stream_status.js";

function headerButton(key, label, action, kind = "") {
  const element = h("button", { type: "button", "data-key": key, class: kind }, label);
  onPress(element, action);
  return element;
}

export class StreamHeader {
  // Pause and Resume are two buttons: a press means what it says, even if another user pressed first.
  constructor(view) {
    this.view = view;
    this.chips = h("div", { class: "chips" });
    this.pause = headerButton("pause", "Pause", () => view.act("Pause", "/pause", { message: PAUSED_MESSAGE }));
    this.resume = headerButton("resume", "Resume", () =>
      view.act("Resume", "/resume", { message: "Learning again." }),
    );
    for (const one of [this.pause, this.resume]) {
      setDisabledReason(one, "One moment: the state of the stream is not known yet.");
    }
    this.element = h(
      "div",
      { class: "head" },
      h("div", {}, h("h1", {}, view.name), this.chips),
      h(
        "div",
        { class: "row" },
        this.pause,
        this.resume,
        headerButton("snap", "Snapshot", () => this.makeSnapshot()),
        headerButton("reset", "Reset", () => this.reset()),
        headerButton("delete", "Delete", () => view.remove(), "danger"),
      ),
    );
  }

  updateButtons(overview) {
    setDisabledReason(this.pause, pauseDisabledReason(overview));
    setDisabledReason(this.resume, resumeDisabledReason(overview));
  }

  chipsContent(overview) {
    const [kind, label] = statusLabel(overview);
    const preset = overview.preset && overview.preset !== "default" ? `@${overview.preset}` : "";
    return [
      h("span", { class: `pill ${kind}` }, label),
      h("span", {}, overview.method + preset),
      h("span", {}, overview.encoder ?? "features"),
      h("span", {}, `${count(overview.classes)} classes`),
    ];
  }

  async makeSnapshot() {
    const text =
      "You can roll back to it later. With a note it is kept until you remove it. " +
      "Without one it is removed when newer snapshots come.";
    const note = await noteDialog("Make a snapshot", text, "Make it");
    if (note === null) return;
    const message = (snapshot) => `Snapshot of event ${count(snapshot.number)} is on disk.`;
    this.view.act("Snapshot", "/snapshots", { json: { note }, message });
  }

  async reset() {
    const text = "The stream starts again without what it learned. Snapshots stay, and you can roll back to one.";
    if (await confirmDialog("Forget what was learned?", text, "Reset", true)) {
      this.view.act("Reset", "/reset", { message: "What was learned is forgotten." });
    }
  }
}
