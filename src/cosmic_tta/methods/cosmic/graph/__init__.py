"""Class graphs: similarities of nodes, density of the first-order graph, second-order graph, maximal cliques.

Imports `core` and `methods.components`. `methods.cosmic` imports it.
"""
