// Tables of a stream: confused classes, sources, snapshots.

import { button, h, meter, table } from "/page/dom.js";
import { count } from "/page/format.js";

const MAX_SNAPSHOTS = 30;

const cell = (...content) => h("td", {}, ...content);
const figure = (value) => h("td", { class: "figure" }, count(value));

export function confusionsTable(pairs) {
  const largest = Math.max(1, ...pairs.map((pair) => pair.count));
  const rows = pairs.map((pair) => {
    const times = [meter(pair.count / largest, "other"), h("span", { class: "figure" }, count(pair.count))];
    return h("tr", {}, cell(pair.label), cell(pair.answer), h("td", { class: "times" }, times));
  });
  return table(["true class", "answered", "times"], rows, "None among the labelled answers.");
}

export function sourcesTable(sources, onUndo) {
  const rows = sources.map((source) => {
    const props = { "data-key": `u-${source.name}`, "aria-label": `Undo ${source.name}` };
    const undo = button("Undo", props, () => onUndo(source));
    return h("tr", {}, cell(source.name), figure(source.first), figure(source.steps), cell(undo));
  });
  return table(["source", "since step", "samples", ""], rows, "No sample came with a source.");
}

function snapshotNote(snapshot) {
  return snapshot.note || h("small", {}, snapshot.number ? "made automatically" : "the empty stream");
}

export function snapshotsTable(snapshots, { onRollBack, onRemove }) {
  const rows = snapshots.slice(0, MAX_SNAPSHOTS).map((snapshot) => {
    const { id, number } = snapshot;
    const rollBack = { "data-key": `s-${id}`, "aria-label": `Roll back to event ${number}` };
    const remove = {
      class: "danger",
      "data-key": `x-${id}`,
      "aria-label": `Remove the snapshot of event ${number}`,
    };
    const actions = h(
      "div",
      { class: "row last" },
      button("Roll back", rollBack, () => onRollBack(snapshot)),
      button("Remove", remove, () => onRemove(snapshot)),
    );
    return h("tr", {}, figure(number), cell(snapshotNote(snapshot)), cell(actions));
  });
  return table(["event", "note", ""], rows, "None yet.");
}
