// Why the last answer came out, or the answer that the user selected.

import { request } from "/page/api.js";
import { emptyText, h, replaceContent } from "/page/dom.js";
import { explanationView } from "/page/explanation.js";
import { thumbnail } from "/page/thumbnails.js";

const MAX_CLIQUES = 12;
const MAX_MEMBERS = 10;
const MAX_INLIERS = 24;
const NO_ANSWER =
  "No image was answered since the server started. The next answer, or an image that you drop, is explained here.";
const NOT_IN_STREAM =
  "It was looked at only, so it is not part of the stream. Zero-shot's class and the images that voted are shown " +
  "for images that the stream learns from.";
const NOT_LAST =
  "Other images came right after it. Zero-shot's class and the images that voted are shown for the last one only.";

// A prediction of the response in the form of the last answer, cut to what can be drawn.
function explanationOf({ step, answers, why = {} }) {
  const perSpace = (values, cut) =>
    Object.fromEntries(Object.entries(values ?? {}).map(([space, all]) => [space, cut(all)]));
  const cutClique = (clique) => ({
    ...clique,
    size: clique.members.length,
    members: clique.members.slice(0, MAX_MEMBERS),
  });
  return {
    step,
    answers,
    zero_shot: null,
    hyper_classes: perSpace(why.hyper_classes, (all) => all.slice(0, MAX_CLIQUES).map(cutClique)),
    inliers: perSpace(why.inliers, (all) => [all.length, all.slice(0, MAX_INLIERS)]),
    votes: {},
    reliability: why.reliability ?? {},
  };
}

export class ExplanationPanel {
  // `onFollow` is called when the user wants to see the newest answer again.
  constructor(view, onFollow) {
    Object.assign(this, { view, onFollow, element: h("div"), shown: "", isPinned: false });
  }

  async showLast(explanation) {
    if (!this.isPinned) await this.draw(explanation, "the last answer");
  }

  async showResult({ name, prediction, explanation }) {
    this.isPinned = true;
    if (explanation) await this.draw(explanation, name);
    else await this.draw(explanationOf(prediction), name, prediction.step === null ? NOT_IN_STREAM : NOT_LAST);
  }

  unpin() {
    this.isPinned = false;
  }

  async draw(explanation, title, remark = "") {
    const key = JSON.stringify([explanation, title]);
    if (this.shown === key) return;
    const content = explanation
      ? await explanationView(explanation, {
          title,
          remark,
          similarClasses: (label) => request(this.view.path(`/similar-classes?label=${encodeURIComponent(label)}`)),
          thumbnail: (step) => thumbnail(this.view.name, step, `step ${step}`),
          onFollow: this.isPinned ? this.onFollow : null,
        })
      : emptyText(NO_ANSWER);
    this.shown = key;
    replaceContent(this.element, content);
  }
}
