"""`cosmic bench`: the cost of a step, beside bare array products and a textbook implementation.

`runner.py` starts processes that run `worker.py`; `timing.py` measures and `workload.py` generates what is measured.
Imports every package below `cli`. Only `cli.commands.bench` imports it.
"""
