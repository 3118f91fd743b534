"""Tables, charts, report pages, and the experiments of the COSMIC paper.

- `chart_data`: tables and charts as plain data; `tables`: a table as text; `comparison`: reports as tables.
- `figure_files`, `result_files`: a result set as files; `accuracy_plot`: accuracy over time as a PNG.
- `plotting`: charts by matplotlib and plotly, the report page.
- `benchmark_page`: the results of `cosmic benchmark` as files.
- `run_report`: the sections of the page about saved runs.
- `paper`: the experiments of the paper.

Imports the packages below it (`core` to `evaluation`); the service and the command line import it. Pillow, matplotlib
and plotly are imported when they are needed.

>>> from cosmic_tta.reporting import Table, markdown
>>> print(markdown(Table("accuracy", "Accuracy", ("method", "top-1 (%)"), [("TDA", 61.35)])).splitlines()[-1])
| TDA | 61.35 |
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from cosmic_tta.reporting.chart_data import Chart, ResultSet, Series, Table
from cosmic_tta.reporting.tables import as_csv, latex, markdown

if TYPE_CHECKING:
    from cosmic_tta.reporting.accuracy_plot import draw_curves
    from cosmic_tta.reporting.figure_files import save_result_set

__all__ = [
    "Chart",
    "ResultSet",
    "Series",
    "Table",
    "as_csv",
    "draw_curves",
    "latex",
    "markdown",
    "save_result_set",
]
LAZY_MODULES = {"draw_curves": "accuracy_plot", "save_result_set": "figure_files"}  # they import Pillow


def __getattr__(name: str) -> Any:
    if name not in LAZY_MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{LAZY_MODULES[name]}"), name)
