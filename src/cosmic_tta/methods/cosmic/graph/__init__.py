"""Class graphs: similarities of nodes, density, second order, maximal cliques.

Imports `core` and `methods.components`. `methods.cosmic` imports it.
"""
