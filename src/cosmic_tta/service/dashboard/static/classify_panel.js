// Images that the user drops on the page, and their answers.

import { request } from "/page/api.js";
import { h, meter, replaceContent } from "/page/dom.js";
import { scorePercent } from "/page/format.js";
import { notifyError } from "/page/notifications.js";
import { REASONS } from "/page/stream_status.js";

const MAX_FILES = 64;
const MAX_RESULTS = 8;

function outcome(prediction) {
  if (prediction.learned) return `learned as step ${prediction.step}`;
  if (prediction.step === null) return "only looked at";
  return prediction.reason ? `not learned: ${REASONS[prediction.reason] ?? prediction.reason}` : "not learned";
}

function scoreBar(answer, isFirst) {
  return h(
    "span",
    { class: isFirst ? "bar-row first" : "bar-row" },
    h("span", { title: answer.label }, answer.label),
    meter(answer.score),
    h("span", { class: "figure" }, scorePercent(answer.score)),
  );
}

export class ClassifyPanel {
  // `onSelect(result)` shows why the answer came out.
  constructor(view, onSelect) {
    Object.assign(this, { view, onSelect, results: [], selected: null });
    this.learn = h("input", { type: "checkbox", id: "learns" });
    this.list = h("div", { class: "results", "aria-live": "polite" });
    const label = h("label", { htmlFor: "learns" }, "Learn from them too, as source “page”");
    this.content = [this.dropZone(), h("p", { class: "row small" }, this.learn, label), this.list];
  }

  dropZone() {
    const onchange = () => {
      this.classify(files.files);
      files.value = "";
    };
    const files = h("input", {
      type: "file",
      accept: "image/*",
      multiple: true,
      id: "files",
      class: "spoken",
      onchange,
    });
    files.tabIndex = -1;
    const zone = h(
      "label",
      { class: "drop", htmlFor: "files", tabIndex: 0, role: "button" },
      h("b", {}, "Drop images here"),
      h("span", {}, "or choose files"),
    );
    zone.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      files.click();
    });
    zone.addEventListener("dragover", (event) => {
      event.preventDefault();
      zone.classList.add("over");
    });
    zone.addEventListener("dragleave", () => zone.classList.remove("over"));
    zone.addEventListener("drop", (event) => {
      event.preventDefault();
      zone.classList.remove("over");
      this.classify(event.dataTransfer.files);
    });
    return [zone, files];
  }

  async classify(files) {
    const query = this.learn.checked ? "learn=true&source=page" : "learn=false";
    for (const file of [...files].slice(0, MAX_FILES)) {
      try {
        const result = await this.predict(file, query);
        this.results.unshift(result);
        for (const old of this.results.splice(MAX_RESULTS)) URL.revokeObjectURL(old.url);
        this.draw();
        await this.select(result);
      } catch (error) {
        notifyError(file.name, error);
      }
    }
  }

  async predict(file, query) {
    const form = new FormData();
    form.append("images", file);
    const path = this.view.path(`/predict?why=true&top=8&${query}`);
    const { predictions } = await request(path, { method: "POST", form });
    const result = { name: file.name, url: URL.createObjectURL(file), prediction: predictions[0] };
    if (result.prediction.step !== null) {
      // The last answer holds more than the response: zero-shot's class, and the images that voted.
      const last = await request(this.view.path("/last-prediction")).catch(() => null);
      if (last?.answer?.step === result.prediction.step) result.explanation = last.answer;
    }
    return result;
  }

  async select(result) {
    this.selected = result;
    this.draw();
    await this.onSelect(result);
  }

  clearSelection() {
    this.selected = null;
    this.draw();
  }

  draw() {
    replaceContent(
      this.list,
      this.results.map((result) => this.resultButton(result)),
    );
  }

  resultButton(result) {
    const { prediction, name, url } = result;
    const isSelected = this.selected === result;
    return h(
      "button",
      {
        type: "button",
        class: `result ${isSelected ? "on" : ""}`,
        "data-key": url,
        "aria-pressed": String(isSelected),
        onclick: () => this.select(result),
      },
      h("img", { src: url, alt: "", class: "thumb big", width: 64, height: 64 }),
      h(
        "span",
        { class: "bars" },
        prediction.answers.slice(0, 3).map((answer, k) => scoreBar(answer, k === 0)),
        h("small", {}, `${name}; ${outcome(prediction)}${prediction.unknown > 0.5 ? "; perhaps of no class" : ""}`),
      ),
    );
  }

  close() {
    for (const result of this.results) URL.revokeObjectURL(result.url);
  }
}
