"""Draws charts: with matplotlib for papers, with plotly for the report page. Both read the same `Chart`.

Imports `core` and `reporting.chart_data`. Other modules of `reporting`, and packages above it, import it. matplotlib
and plotly are imported only when something is drawn.
"""

from cosmic_tta.reporting.plotting.html_page import write_page

__all__ = ["write_page"]
