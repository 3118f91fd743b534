// The class graph around an answer, as SVG. One clique is highlighted.

import { HEIGHT, WIDTH, springLayout } from "/page/graph_layout.js";

const NAMESPACE = "http://www.w3.org/2000/svg";
const MAX_NODES = 24;

function svg(tag, props, ...children) {
  const element = document.createElementNS(NAMESPACE, tag);
  for (const [name, value] of Object.entries(props)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

// On a phone the graph shrinks and its letters do not, so that names are cut sooner.
function lettering() {
  const isPhone = matchMedia("(max-width: 760px)").matches;
  return isPhone ? { maxLength: 12, letterWidth: 9 } : { maxLength: 18, letterWidth: 7.2 };
}

const shorten = (name, length) => (name.length > length ? `${name.slice(0, length - 1).trimEnd()}…` : name);

// Nodes are named "cat (text)" and "cat (images)".
export const className = (node) => node.replace(/ \((text|images)\)$/, "");

// The edges between members of a clique: "a-b" → whether the edge belongs to the highlighted clique.
function cliqueEdges(cliques, highlighted, index) {
  const edges = new Map();
  const connect = (members, strong) => {
    const nodes = members.map((name) => index.get(name)).filter((k) => k !== undefined);
    nodes.forEach((a, k) =>
      nodes.slice(k + 1).forEach((b) => {
        const key = `${Math.min(a, b)}-${Math.max(a, b)}`;
        edges.set(key, edges.get(key) || strong);
      }),
    );
  };
  cliques.forEach((members) => connect(members, false));
  connect(highlighted, true);
  return [...edges].map(([key, strong]) => [...key.split("-").map(Number), strong]);
}

function nodeMark(name, { x, y }, label, role) {
  const mark = name.endsWith(" (text)")
    ? svg("rect", { x: x - 6, y: y - 6, width: 12, height: 12, rx: 2 })
    : svg("circle", { cx: x, cy: y, r: 7 });
  const text = svg("text", { x, y: y + 21, "text-anchor": "middle" }, label);
  return svg("g", { class: role }, svg("title", {}, name), mark, text);
}

// `cliques`: lists of node names; `highlighted`: the members of one clique; `answer`: the predicted class.
export function classGraph(cliques, highlighted, answer, description) {
  const names = [...new Set([...highlighted, ...cliques.flat()])].slice(0, MAX_NODES);
  const index = new Map(names.map((name, k) => [name, k]));
  const edges = cliqueEdges(cliques, highlighted, index);
  const { maxLength, letterWidth } = lettering();
  const labels = names.map((name) => shorten(className(name), maxLength));
  const at = springLayout(
    labels.map((label) => label.length * letterWidth),
    edges,
  );

  const viewBox = `0 0 ${WIDTH} ${HEIGHT}`;
  const graph = svg("svg", { viewBox, role: "img", "aria-label": description, class: "graph" });
  const inFront = edges.toSorted((a, b) => a[2] - b[2]); // highlighted edges last
  for (const [a, b, strong] of inFront) {
    const line = { x1: at[a].x, y1: at[a].y, x2: at[b].x, y2: at[b].y, class: strong ? "strong" : "" };
    graph.append(svg("line", line));
  }
  const lit = new Set(highlighted);
  names.forEach((name, k) => {
    const role = className(name) === answer ? "answer" : lit.has(name) ? "lit" : "";
    graph.append(nodeMark(name, at[k], labels[k], role));
  });
  return graph;
}
