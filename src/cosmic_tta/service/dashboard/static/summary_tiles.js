// The figures at the top of a stream.

import { h } from "/page/dom.js";
import { count, percent } from "/page/format.js";
import { REASONS } from "/page/stream_status.js";

function tile(title, value, remark, kind = "") {
  return h("div", { class: "tile" }, h("span", {}, title), h("b", { class: kind }, value), h("small", {}, remark));
}

function answeredTile({ counts, seen, not_learned: notLearned }) {
  const reasons = Object.entries(notLearned)
    .filter(([, times]) => times > 0)
    .map(([reason, times]) => `${count(times)} ${REASONS[reason] ?? reason}`);
  const rest = reasons.length ? `; ${reasons.join(", ")}` : "";
  return tile("Answered", count(counts.answered), `${count(seen)} learned${rest}`);
}

function accuracyTile({ counts }) {
  if (!counts.labelled) return tile("Accuracy", "–", "no labels yet");
  return tile("Accuracy", percent(counts.right / counts.labelled), `${count(counts.labelled)} labelled`);
}

function gainTile({ counts }) {
  if (!counts.labelled) return tile("Against zero-shot", "–", "points, when labels come");
  const gain = (100 * (counts.right - counts.zero_shot_right)) / counts.labelled;
  const sign = gain >= 0 ? "+" : "−";
  const remark = `points; zero-shot ${percent(counts.zero_shot_right / counts.labelled)}`;
  const kind = gain < 0 ? "bad" : gain > 0 ? "good" : "";
  return tile("Against zero-shot", `${sign}${Math.abs(gain).toFixed(1)}`, remark, kind);
}

function agreementTile({ counts }) {
  const value = counts.answered ? percent(counts.agreed / counts.answered, 0) : "–";
  return tile("Agreement", value, "with zero-shot");
}

function confidenceTile({ curves, signals }) {
  const value = curves.confidence.length ? percent(curves.confidence.at(-1), 0) : "–";
  const remark = Object.entries(signals).map(([name, signal]) => `${name} ${signal.toFixed(2)}`);
  return tile("Confidence", value, remark.join(" · ") || "of the last 20 answers");
}

export function tilesContent(overview) {
  return [answeredTile, accuracyTile, gainTile, agreementTile, confidenceTile].map((make) => make(overview));
}
