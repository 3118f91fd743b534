// Positions of a small graph's nodes: a spring layout with a fixed start, so that it is always the same.

export const WIDTH = 520;
export const HEIGHT = 330;
const SPRING_ROUNDS = 220;
const SEPARATION_ROUNDS = 160;
const NODE_HEIGHT = 36; // a node and its name

function startPositions(nodes) {
  return Array.from({ length: nodes }, (_, k) => {
    const angle = (2 * Math.PI * k) / nodes;
    return { x: Math.cos(angle) * 120, y: Math.sin(angle) * 120 };
  });
}

function addForce(force, a, b, dx, dy) {
  force[a].x += dx;
  force[a].y += dy;
  force[b].x -= dx;
  force[b].y -= dy;
}

// All nodes repel each other, edges attract, and a weak force pulls towards the centre.
function forces(at, edges) {
  const force = at.map(() => ({ x: 0, y: 0 }));
  for (let a = 0; a < at.length; a += 1) {
    for (let b = a + 1; b < at.length; b += 1) {
      const dx = at[a].x - at[b].x || 0.01;
      const dy = at[a].y - at[b].y || 0.01;
      const repulsion = 3600 / (dx * dx + dy * dy);
      addForce(force, a, b, dx * repulsion, dy * repulsion);
    }
    force[a].x -= at[a].x * 0.35;
    force[a].y -= at[a].y * 0.7;
  }
  for (const [a, b] of edges) {
    const dx = at[a].x - at[b].x;
    const dy = at[a].y - at[b].y;
    const attraction = Math.hypot(dx, dy) / 90;
    addForce(force, a, b, -dx * attraction, -dy * attraction);
  }
  return force;
}

function fitToCanvas(at) {
  const xs = at.map((node) => node.x);
  const ys = at.map((node) => node.y);
  const [left, top] = [Math.min(...xs), Math.min(...ys)];
  const width = Math.max(...xs) - left || 1;
  const height = Math.max(...ys) - top || 1;
  return at.map((node) => ({
    x: 70 + ((node.x - left) / width) * (WIDTH - 140),
    y: 20 + ((node.y - top) / height) * (HEIGHT - 56),
  }));
}

// Move nodes apart whose names overlap, mostly up and down.
function separateLabels(at, labelWidths) {
  at.forEach((a, k) =>
    at.forEach((b, other) => {
      if (other <= k) return;
      const [dx, dy] = [b.x - a.x, b.y - a.y];
      const minWidth = (labelWidths[k] + labelWidths[other]) / 2 + 8;
      if (Math.abs(dx) > minWidth || Math.abs(dy) > NODE_HEIGHT) return;
      const vertical = (dy < 0 ? -1 : 1) * Math.min(4, (NODE_HEIGHT - Math.abs(dy)) / 2);
      const horizontal = (dx < 0 ? -1 : 1) * Math.min(1.5, (minWidth - Math.abs(dx)) / 2);
      a.y -= vertical;
      b.y += vertical;
      a.x -= horizontal;
      b.x += horizontal;
    }),
  );
  at.forEach((node, k) => {
    const half = Math.max(20, labelWidths[k] / 2 + 2);
    node.x = Math.max(half, Math.min(WIDTH - half, node.x));
    node.y = Math.max(14, Math.min(HEIGHT - 30, node.y));
  });
}

// `labelWidths`: the width of each node's name; `edges`: pairs of node indices. Returns [{x, y}].
export function springLayout(labelWidths, edges) {
  const at = startPositions(labelWidths.length);
  for (let round = 0; round < SPRING_ROUNDS; round += 1) {
    const maxStep = 9 * (1 - round / SPRING_ROUNDS);
    forces(at, edges).forEach((force, k) => {
      const size = Math.hypot(force.x, force.y) || 1;
      at[k].x += (force.x / size) * Math.min(size, maxStep);
      at[k].y += (force.y / size) * Math.min(size, maxStep);
    });
  }
  const placed = fitToCanvas(at);
  for (let round = 0; round < SEPARATION_ROUNDS; round += 1) separateLabels(placed, labelWidths);
  return placed;
}
