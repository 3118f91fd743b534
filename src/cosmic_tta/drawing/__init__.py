"""Charts drawn: by matplotlib for papers, by plotly for the page. Both read the same plain data."""
