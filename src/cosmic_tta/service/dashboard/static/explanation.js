// Why an answer came out: the clique in the class graph, or for other methods the classes with similar texts.

import { classGraph, className } from "/page/class_graph.js";
import { button, h, hintText } from "/page/dom.js";
import { count, scorePercent } from "/page/format.js";

const MAX_VOTES = 8;
const LEAST_WEIGHT = 0.005;

function cliqueView(explanation, answer, space, cliques) {
  const isBehind = (clique) => clique.members.some((name) => className(name) === answer);
  const best = cliques.find(isBehind) ?? cliques[0];
  const subject = best.size > 1 ? `The clique of ${best.size} behind it` : "The single node behind it";
  const affinity = best.affinity.toFixed(2);
  const inliers = count(explanation.inliers[space]?.[0] ?? 0);
  const description = `Class graph. The clique behind ${answer}: ${best.members.join(", ")}.`;
  return [
    classGraph(
      cliques.map((clique) => clique.members),
      best.members,
      answer,
      description,
    ),
    hintText(
      `${subject} has affinity ${affinity} to the image in ${space}; ${inliers} classes are inliers. ` +
        "Squares are texts, circles are images.",
    ),
  ];
}

async function similarTextsView(answer, similarClasses) {
  const found = await similarClasses(answer).catch(() => ({ classes: [], pairs: [] })); // the class may be removed
  if (!found.classes.length) return [];
  const withAnswer = found.pairs.filter((pair) => pair.between.includes(0)).slice(0, 3);
  const nearest = withAnswer.map((pair) => found.classes[pair.between.find((k) => k !== 0)]);
  const strongest = found.pairs.slice(0, Math.max(8, found.classes.length));
  const edges = strongest.map((pair) => pair.between.map((k) => found.classes[k]));
  const description = `Classes whose texts are similar to ${answer}: ${found.classes.slice(1).join(", ")}.`;
  return [
    classGraph(edges, [answer, ...nearest.slice(0, 1)], answer, description),
    nearest.length
      ? hintText(
          `This method has no class graph. The class texts most similar to ${answer} are shown; ` +
            `${nearest.join(", ")} first.`,
        )
      : null,
  ];
}

function votesView(explanation, thumbnail) {
  const seen = new Set();
  const isNew = (vote) => !seen.has(vote.image) && seen.add(vote.image);
  const votes = Object.values(explanation.votes ?? {})
    .flat()
    .filter((vote) => vote.image !== null && vote.weight >= LEAST_WEIGHT && isNew(vote))
    .slice(0, MAX_VOTES);
  if (votes.length) {
    const figures = votes.map((vote) =>
      h("figure", {}, thumbnail(vote.image), h("figcaption", {}, vote.weight.toFixed(2))),
    );
    return [hintText("Images that voted for it:"), h("div", { class: "thumbs" }, figures)];
  }
  return explanation.zero_shot ? hintText("No single image voted for it, or none that is still kept.") : null;
}

function zeroShotText(explanation, answer) {
  if (!explanation.zero_shot) return null;
  const same = explanation.zero_shot === answer;
  return h("span", {}, same ? "; zero-shot says the same" : `; zero-shot says ${explanation.zero_shot}`);
}

// `title`: what was answered; `remark`: a sentence below the graph; `onFollow`: shows the newest answer again.
export async function explanationView(explanation, { title, remark, similarClasses, thumbnail, onFollow }) {
  const [{ label: answer, score }] = explanation.answers;
  const [space, cliques] = Object.entries(explanation.hyper_classes)[0] ?? ["", []];
  const step = explanation.step === null ? "" : `, step ${count(explanation.step)}`;
  return [
    h(
      "p",
      { class: "answer" },
      h("span", {}, `${title}${step}: `),
      h("b", {}, answer),
      ` ${scorePercent(score)}`,
      zeroShotText(explanation, answer),
      onFollow ? button("Follow the stream", { class: "follow", "data-key": "unpin" }, onFollow) : null,
    ),
    cliques.length
      ? cliqueView(explanation, answer, space, cliques)
      : await similarTextsView(answer, similarClasses),
    remark ? hintText(remark) : null,
    votesView(explanation, thumbnail),
  ];
}
