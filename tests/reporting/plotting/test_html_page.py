from __future__ import annotations

import base64
import io
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from cosmic_tta.core.errors import InputError
from cosmic_tta.reporting.chart_data import Chart, ResultSet, Series, Table
from cosmic_tta.reporting.plotting import requirements
from cosmic_tta.reporting.plotting.html_page import data_url, render_page, write_page
from tests.support.sample_charts import CHARTS, PIXELS

NASTY = '<script>alert(1)</script> & "quotes"'


class ParsedPage(HTMLParser):
    """The tags, addresses and ids of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.addresses: list[str] = []
        self.ids: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href", "action")]
        self.ids += [value or "" for name, value in attrs if name == "id"]


@pytest.fixture(scope="module")
def text() -> str:
    table = Table("t", NASTY, ("name", "accuracy"), [(NASTY, 61.234), ("b", None), ("c", "93.50 ± 0.20")], NASTY)
    chart = Chart("c", NASTY, "lines", series=[Series(NASTY, [1, 2], [1, float("inf")])], note=NASTY)
    image = Chart("p", "p", "images", images=[(CHARTS["images"].images[0][0], NASTY)])
    results = ResultSet("o", NASTY, [table], [*CHARTS.values(), chart, image], [NASTY], [NASTY])
    return render_page([results], NASTY, NASTY)


def chart_data(text: str) -> dict[str, Any]:
    found = re.search(r'<script id="charts" type="application/json">(.*?)</script>', text, re.DOTALL)
    assert found
    content: dict[str, Any] = json.loads(found[1])
    return content


def test_all_texts_are_escaped(text: str) -> None:
    assert "alert(1)" in text
    assert "<script>alert" not in text
    parsed = ParsedPage(text)
    assert parsed.tags.count("script") == 3  # the charts, plotly, the page's own
    assert len(parsed.ids) == len(set(parsed.ids))


def test_the_page_refers_to_no_other_file(text: str) -> None:
    assert all(address.startswith(("data:", "#")) for address in ParsedPage(text).addresses)
    assert "default-src 'none'" in text
    assert text.count("plotly.js v") == 1


def test_every_chart_table_and_image_is_on_the_page(text: str) -> None:
    charts, parsed = chart_data(text)["charts"], ParsedPage(text)
    assert len(charts) == len(CHARTS)  # less the images, and one more
    assert set(charts) <= set(parsed.ids)
    assert parsed.tags.count("table") == 1
    assert parsed.tags.count("img") == 3
    assert "61.23" in text
    assert 'data-value="93.50"' in text


def test_infinite_numbers_are_absent_and_tags_are_escaped(text: str) -> None:
    last = [
        chart for chart in chart_data(text)["charts"].values() if chart["data"][0].get("name", "").endswith('quotes"')
    ]
    assert last[0]["data"][0]["y"] == [1, None]
    assert last[0]["data"][0]["name"].startswith("&lt;script")


def test_what_was_tuned_on_labels_has_a_badge() -> None:
    plain = Chart("a", "Accuracy", "lines", series=[Series("a", [1], [1])])
    assert '<span class="oracle-badge">' not in render_page([ResultSet("o", "o", charts=[plain])], "t")
    assert '<span class="oracle-badge">' in render_page([ResultSet("o", "o", charts=[CHARTS["surface"]])], "t")


def test_a_page_is_replaced_in_one_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "page.html"
    write_page([], file, "First")
    monkeypatch.setattr("cosmic_tta.reporting.plotting.html_page.render_page", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        write_page([], file, "Second")
    assert "<h1>First</h1>" in file.read_text(encoding="utf-8")
    assert list(tmp_path.iterdir()) == [file]


def test_without_plotly_the_error_says_how_to_install_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requirements, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"need plotly, which is not installed.*: pip install 'cosmic-tta\[report\]'"):
        write_page([], tmp_path / "page.html", "t")


def test_an_image_is_a_data_url() -> None:
    url = data_url(PIXELS)
    assert url.startswith("data:image/png;base64,")
    with Image.open(io.BytesIO(base64.b64decode(url.partition(",")[2]))) as image:
        assert np.array_equal(np.asarray(image), PIXELS)


def test_tags_become_menus_and_mark_what_they_filter() -> None:
    tables = [
        Table("a", "a", ("x",), [("1",)], tags={"stream": ("all", NASTY)}),
        Table("b", "b", ("x",), [("1",)], tags={"stream": ("all", "other"), "aux": ("none",)}),
        Table("c", "c", ("x",), [("1",)]),
    ]
    html = render_page([ResultSet("o", "o", tables, [CHARTS["lines"]])], "t")
    assert re.findall(r'<select data-name="(\w+)">', html) == ["stream", "aux"]
    assert html.count("<option>") == 4
    assert html.count("<option>all</option>") == 1
    assert html.count(' data-tags="') == 2
    assert "<script>alert" not in html
    assert '<div class="filters"' not in render_page([ResultSet("o", "o", tables[2:])], "t")
