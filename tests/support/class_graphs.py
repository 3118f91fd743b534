from __future__ import annotations

import numpy as np

from cosmic_tta.methods.cosmic.graph.class_graph import Graph, bits, rows_of


def matrix(graph: Graph) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    dense = np.zeros((len(graph), len(graph)), np.int64)
    for node, row in enumerate(rows_of(graph)):
        dense[node, bits(row)] = 1
    return dense
