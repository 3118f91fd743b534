// The class graph around an answer: nodes in a small circle of acquaintances, the clique that spoke highlighted.

const NS = "http://www.w3.org/2000/svg";
const WIDTH = 520;
const HEIGHT = 330;
const MOST = 24; // nodes

function svg(tag, props, ...children) {
  const element = document.createElementNS(NS, tag);
  for (const [name, value] of Object.entries(props)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

// Push all apart, pull those together that are joined: some rounds, always with the same outcome.
function laidOut(count, edges) {
  const at = Array.from({ length: count }, (_, k) => {
    const turn = (2 * Math.PI * k) / count;
    return { x: Math.cos(turn) * 120, y: Math.sin(turn) * 120 };
  });
  for (let round = 0; round < 220; round += 1) {
    const heat = 9 * (1 - round / 220);
    const push = at.map(() => ({ x: 0, y: 0 }));
    for (let a = 0; a < count; a += 1) {
      for (let b = a + 1; b < count; b += 1) {
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
  const wide = Math.max(...xs) - left || 1;
  const tall = Math.max(...ys) - top || 1;
  const placed = at.map((one) => ({ x: 70 + ((one.x - left) / wide) * (WIDTH - 140), y: 20 + ((one.y - top) / tall) * (HEIGHT - 56) }));
  for (let round = 0; round < 60; round += 1) parted(placed);
  return placed;
}

// Names must not lie upon each other: two that are too near step aside, up and down.
function parted(placed) {
  placed.forEach((a, k) => placed.slice(k + 1).forEach((b) => {
    const [dx, dy] = [b.x - a.x, b.y - a.y];
    if (Math.abs(dx) > 74 || Math.abs(dy) > 34) return;
    const step = (dy < 0 ? -1 : 1) * Math.min(4, (34 - Math.abs(dy)) / 2);
    const side = (dx < 0 ? -1 : 1) * 1.5;
    a.y -= step; b.y += step; a.x -= side; b.x += side;
    for (const one of [a, b]) {
      one.x = Math.max(56, Math.min(WIDTH - 56, one.x));
      one.y = Math.max(14, Math.min(HEIGHT - 30, one.y));
    }
  }));
}

const short = (name) => (name.length > 18 ? `${name.slice(0, 17)}…` : name);

// `cliques`: lists of node names; `lit`: the names of the clique that spoke; `answer`: the class that came out.
export function graph(cliques, lit, answer, told) {
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
  const at = laidOut(names.length, pairs);
  const picture = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": told, class: "graph" });
  pairs.sort((a, b) => a[2] - b[2]).forEach(([a, b, strong]) => {
    picture.append(svg("line", { x1: at[a].x, y1: at[a].y, x2: at[b].x, y2: at[b].y, class: strong ? "strong" : "" }));
  });
  const chosen = new Set(lit);
  names.forEach((name, k) => {
    const plain = name.replace(/ \((text|images)\)$/, "");
    const role = plain === answer ? "answer" : chosen.has(name) ? "lit" : "";
    const dot = name.endsWith(" (text)")
      ? svg("rect", { x: at[k].x - 6, y: at[k].y - 6, width: 12, height: 12, rx: 2 })
      : svg("circle", { cx: at[k].x, cy: at[k].y, r: 7 });
    const label = svg("text", { x: at[k].x, y: at[k].y + 21, "text-anchor": "middle" }, short(plain));
    picture.append(svg("g", { class: role }, svg("title", {}, name), dot, label));
  });
  return picture;
}
