"""Compare the kernel's cliques with the plain path's, on random graphs of every size and density, with limits."""

from __future__ import annotations

import argparse
import random
import sys
from unittest.mock import patch

from cosmic_tta.core import kernel
from cosmic_tta.methods.cosmic.graph import cliques
from cosmic_tta.methods.cosmic.graph.class_graph import graph_of


def random_rows(rng: random.Random) -> list[int]:
    """Return a graph as bitsets: up to 90 nodes, of any density, sometimes in a few dense groups."""
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
        sys.exit("the compiled kernel is not in use, so there is nothing to compare; build it with pip install -e .")
    rng = random.Random(chosen.seed)
    limited = 0
    for number in range(chosen.graphs):
        rows = random_rows(rng)
        limit = rng.choice([3, 30, 300, 3000])
        graph = graph_of(rows)
        found = cliques.maximal_cliques(graph, limit)
        with patch.object(cliques, "COMPILED", None):
            plain = cliques.maximal_cliques(graph, limit)
        if found.members() != plain.members() or found.complete != plain.complete:
            sys.exit(f"graph {number} of seed {chosen.seed} differs, with at most {limit} cliques: {rows}")
        limited += not plain.complete
    print(f"{chosen.graphs} graphs, {limited} of them past their limit: all the same.", flush=True)


if __name__ == "__main__":
    main()
