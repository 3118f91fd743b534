// The class graph around an answer: nodes in a small circle of acquaintances, the clique that spoke highlighted.

import { count, h, score } from "/page/building.js";

const NS = "http://www.w3.org/2000/svg";
const WIDTH = 520;
const HEIGHT = 330;
const MOST = 24; // nodes
const TALL = 36; // a node and its name

function svg(tag, props, ...children) {
  const element = document.createElementNS(NS, tag);
  for (const [name, value] of Object.entries(props)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

// Push all apart, pull those together that are joined: some rounds, always with the same outcome.
function laidOut(wide, edges) {
  const nodes = wide.length;
  const at = Array.from({ length: nodes }, (_, k) => {
    const turn = (2 * Math.PI * k) / nodes;
    return { x: Math.cos(turn) * 120, y: Math.sin(turn) * 120 };
  });
  for (let round = 0; round < 220; round += 1) {
    const heat = 9 * (1 - round / 220);
    const push = at.map(() => ({ x: 0, y: 0 }));
    for (let a = 0; a < nodes; a += 1) {
      for (let b = a + 1; b < nodes; b += 1) {
        const dx = at[a].x - at[b].x || 0.01;
        const dy = at[a].y - at[b].y || 0.01;
        const near = 3600 / (dx * dx + dy * dy);
        push[a].x += dx * near; push[a].y += dy * near;
        push[b].x -= dx * near; push[b].y -= dy * near;
      }
      push[a].x -= at[a].x * 0.35; push[a].y -= at[a].y * 0.7;
    }
    for (const [a, b] of edges) {
      const dx = at[a].x - at[b].x;
      const dy = at[a].y - at[b].y;
      const far = Math.hypot(dx, dy) / 90;
      push[a].x -= dx * far; push[a].y -= dy * far;
      push[b].x += dx * far; push[b].y += dy * far;
    }
    at.forEach((one, k) => {
      const size = Math.hypot(push[k].x, push[k].y) || 1;
      one.x += (push[k].x / size) * Math.min(size, heat);
      one.y += (push[k].y / size) * Math.min(size, heat);
    });
  }
  const xs = at.map((one) => one.x);
  const ys = at.map((one) => one.y);
  const [left, top] = [Math.min(...xs), Math.min(...ys)];
  const across = Math.max(...xs) - left || 1;
  const tall = Math.max(...ys) - top || 1;
  const placed = at.map((one) => ({ x: 70 + ((one.x - left) / across) * (WIDTH - 140), y: 20 + ((one.y - top) / tall) * (HEIGHT - 56) }));
  for (let round = 0; round < 160; round += 1) parted(placed, wide);
  return placed;
}

// Names must not lie upon each other: two that are too near step aside, up and down. `wide`: how wide each name is.
function parted(placed, wide) {
  placed.forEach((a, k) => placed.forEach((b, other) => {
    if (other <= k) return;
    const [dx, dy] = [b.x - a.x, b.y - a.y];
    const apart = (wide[k] + wide[other]) / 2 + 8;
    if (Math.abs(dx) > apart || Math.abs(dy) > TALL) return;
    const step = (dy < 0 ? -1 : 1) * Math.min(4, (TALL - Math.abs(dy)) / 2);
    const side = (dx < 0 ? -1 : 1) * Math.min(1.5, (apart - Math.abs(dx)) / 2);
    a.y -= step; b.y += step; a.x -= side; b.x += side;
  }));
  placed.forEach((one, k) => {
    const half = Math.max(20, wide[k] / 2 + 2);
    one.x = Math.max(half, Math.min(WIDTH - half, one.x));
    one.y = Math.max(14, Math.min(HEIGHT - 30, one.y));
  });
}

// On a phone the picture shrinks and its letters do not: shorter names fit.
const lettering = () => (matchMedia("(max-width: 760px)").matches ? { most: 12, wide: 9 } : { most: 18, wide: 7.2 });
const short = (name, most) => (name.length > most ? `${name.slice(0, most - 1).trimEnd()}…` : name);
const plainly = (name) => name.replace(/ \((text|images)\)$/, "");

// `cliques`: lists of node names; `lit`: the names of the clique that spoke; `answer`: the class that came out.
function graph(cliques, lit, answer, told) {
  const names = [...new Set([...lit, ...cliques.flat()])].slice(0, MOST);
  const place = new Map(names.map((name, k) => [name, k]));
  const edges = new Map();
  const join = (members, strong) => {
    const inside = members.map((name) => place.get(name)).filter((k) => k !== undefined);
    inside.forEach((a, k) => inside.slice(k + 1).forEach((b) => {
      const key = `${Math.min(a, b)}-${Math.max(a, b)}`;
      edges.set(key, edges.get(key) || strong);
    }));
  };
  cliques.forEach((members) => join(members, false));
  join(lit, true);
  const pairs = [...edges].map(([key, strong]) => [...key.split("-").map(Number), strong]);
  const letters = lettering();
  const labels = names.map((name) => short(plainly(name), letters.most));
  const at = laidOut(labels.map((label) => label.length * letters.wide), pairs);
  const picture = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": told, class: "graph" });
  pairs.sort((a, b) => a[2] - b[2]).forEach(([a, b, strong]) => {
    picture.append(svg("line", { x1: at[a].x, y1: at[a].y, x2: at[b].x, y2: at[b].y, class: strong ? "strong" : "" }));
  });
  const chosen = new Set(lit);
  names.forEach((name, k) => {
    const role = plainly(name) === answer ? "answer" : chosen.has(name) ? "lit" : "";
    const dot = name.endsWith(" (text)")
      ? svg("rect", { x: at[k].x - 6, y: at[k].y - 6, width: 12, height: 12, rx: 2 })
      : svg("circle", { cx: at[k].x, cy: at[k].y, r: 7 });
    const label = svg("text", { x: at[k].x, y: at[k].y + 21, "text-anchor": "middle" }, labels[k]);
    picture.append(svg("g", { class: role }, svg("title", {}, name), dot, label));
  });
  return picture;
}

// What spoke for an answer: the clique in the class graph; for other methods the classes whose texts are near.
export async function explained(told, { what, words, kin, thumb, follow }) {
  const answer = told.answers[0].label;
  const [space, cliques] = Object.entries(told.hyper_classes)[0] ?? ["", []];
  let picture;
  let about = "";
  if (cliques.length) {
    const best = cliques.find((one) => one.members.some((name) => plainly(name) === answer)) ?? cliques[0];
    about = `${best.size > 1 ? `The clique of ${best.size} behind it` : "The node behind it stands alone; it"} has affinity ${best.affinity.toFixed(2)} to the picture in ${space}; ${count(told.inliers[space]?.[0] ?? 0)} classes are inliers. Squares are texts, circles pictures.`;
    picture = graph(cliques.map((one) => one.members), best.members, answer, `Class graph. The clique behind ${answer}: ${best.members.join(", ")}.`);
  } else {
    const found = await kin(answer).catch(() => ({ classes: [], pairs: [] })); // the class may be gone
    const near = found.pairs.filter((one) => one.between.includes(0)).slice(0, 3).map((one) => found.classes[one.between.find((k) => k !== 0)]);
    const strong = found.pairs.slice(0, Math.max(8, found.classes.length)).map((one) => one.between.map((k) => found.classes[k]));
    about = near.length ? `This method has no class graph: here are the class texts nearest to ${answer}; ${near.join(", ")} first.` : "";
    picture = found.classes.length ? graph(strong, [answer, ...near.slice(0, 1)], answer, `Classes whose texts are near ${answer}: ${found.classes.slice(1).join(", ")}.`) : null;
  }
  const seen = new Set();
  const spoke = Object.values(told.votes ?? {}).flat().filter((one) => one.picture !== null && one.weight >= 0.005 && !seen.has(one.picture) && seen.add(one.picture)).slice(0, 8);
  const zero = !told.zero_shot ? null : told.zero_shot === answer ? "; zero-shot says the same" : `; zero-shot says ${told.zero_shot}`;
  return [
    h("p", { class: "answer" }, h("span", {}, `${what}${told.step === null ? "" : `, step ${count(told.step)}`}: `), h("b", {}, answer), ` ${score(told.answers[0].score)}`,
      zero ? h("span", {}, zero) : null,
      follow ? h("button", { type: "button", class: "follow", "data-key": "unpin", onclick: follow }, "Follow the stream") : null),
    picture, about ? h("p", { class: "hint" }, about) : null, words ? h("p", { class: "hint" }, words) : null,
    spoke.length ? h("p", { class: "hint" }, "Pictures that spoke for it:") : zero ? h("p", { class: "hint" }, "No single picture spoke for it, or none that is still there.") : null,
    spoke.length ? h("div", { class: "thumbs" }, spoke.map((one) => h("figure", {}, thumb(one.picture), h("figcaption", {}, one.weight.toFixed(2))))) : null,
  ];
}
