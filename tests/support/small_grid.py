"""A small grid file for tests of plans, jobs and sweeps."""

GRID = """
packs = ["pack"]
methods = ["zero_shot", "tda", "cosmic"]
seeds = [0, 1]
limit = 30
[params.cosmic]
aux_shots = [2, 4]
"""
