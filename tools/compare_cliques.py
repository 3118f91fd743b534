"""The kernel's cliques against the plain path's, on random graphs of every size and density, bounds included."""

from __future__ import annotations

import argparse
import random
import sys
from unittest.mock import patch

from cosmic_tta import cliques, kernel
from cosmic_tta.graph import graph_of


def random_rows(rng: random.Random) -> list[int]:
    """Return a graph as bitsets: up to 90 nodes, of any density, sometimes made of a few dense groups."""
    nodes = rng.choice([rng.randrange(12), rng.randrange(40), rng.randrange(90)])
    density = rng.random() ** 2
    groups = rng.choice([1, 1, 5])
    rows = [0] * nodes
    for one in range(nodes):
        for other in range(one):
            near = one % groups == other % groups
            if rng.random() < (density if near else density / 10):
                rows[one] |= 1 << other
                rows[other] |= 1 << one
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--graphs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    if kernel.COMPILED is None:
        sys.exit("the compiled kernel is not in use; there is nothing to compare.")
    rng = random.Random(chosen.seed)
    bounded = 0
    for number in range(chosen.graphs):
        rows = random_rows(rng)
        bound = rng.choice([3, 30, 300, 3000])
        graph = graph_of(rows)
        found = cliques.maximal_cliques(graph, bound)
        with patch.object(cliques, "COMPILED", None):
            plain = cliques.maximal_cliques(graph, bound)
        if found.members() != plain.members() or found.complete != plain.complete:
            sys.exit(f"graph {number} of seed {chosen.seed} differs, with at most {bound} cliques: {rows}")
        bounded += not plain.complete
    print(f"{chosen.graphs} graphs, {bounded} of them past their bound: all the same.", flush=True)


if __name__ == "__main__":
    main()
