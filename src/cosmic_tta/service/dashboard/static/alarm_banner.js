// Alarms and warnings of a stream, with the actions that answer an alarm.

import { onPress, setDisabledReason } from "/page/buttons.js";
import { button, h } from "/page/dom.js";
import { count } from "/page/format.js";
import { PAUSED_MESSAGE, pauseDisabledReason } from "/page/stream_status.js";

const capitalised = (text) => `${text[0].toUpperCase()}${text.slice(1)}`;

function newestSnapshotBefore(snapshots, event) {
  const earlier = snapshots.filter((snapshot) => snapshot.number < event);
  return earlier.reduce((a, b) => (a && a.number >= b.number ? a : b), null);
}

function alarmBanner(alarm, overview, view) {
  const pause = h("button", { type: "button", "data-key": `p-${alarm.kind}` }, "Pause");
  onPress(pause, () => view.act("Pause", "/pause", { message: PAUSED_MESSAGE }));
  setDisabledReason(pause, pauseDisabledReason(overview));
  const snapshot = newestSnapshotBefore(overview.snapshots, alarm.since);
  const rollBack =
    snapshot &&
    button(`Roll back to event ${count(snapshot.number)}`, { "data-key": `b-${alarm.kind}` }, () =>
      view.rollBack(snapshot),
    );
  return h(
    "div",
    { class: "banner bad" },
    h("p", {}, h("b", {}, `${capitalised(alarm.kind)} since event ${count(alarm.since)}. `), alarm.detail),
    h("div", { class: "row" }, pause, rollBack),
  );
}

export function bannerContent(overview, view) {
  const warnings = [
    overview.fallen_back && "It answers zero-shot and learns nothing until it is resumed.",
    overview.problem && `Images are not accepted: ${overview.problem}`,
    ...overview.warnings,
  ].filter(Boolean);
  return [
    overview.alarms.map((alarm) => alarmBanner(alarm, overview, view)),
    warnings.map((text) => h("div", { class: "banner wait" }, h("p", {}, text))),
  ];
}
