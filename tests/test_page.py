from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from test_figures import CHARTS

from cosmic_tta.charts import Chart, Outcome, Series, Table
from cosmic_tta.drawing import needs
from cosmic_tta.drawing.page import page, write_page
from cosmic_tta.errors import InputError

pytestmark = pytest.mark.pathless

NASTY = '<script>alert(1)</script> & "quotes"'


class Seen(HTMLParser):
    """Which tags and addresses a page has."""

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
    picture = Chart("p", "p", "pictures", pictures=[(CHARTS["pictures"].pictures[0][0], NASTY)])
    outcome = Outcome("o", NASTY, [table], [*CHARTS.values(), chart, picture], [NASTY], [NASTY])
    return page([outcome], NASTY, NASTY)


def data(text: str) -> dict[str, Any]:
    found = re.search(r'<script id="charts" type="application/json">(.*?)</script>', text, re.DOTALL)
    assert found
    told: dict[str, Any] = json.loads(found[1])
    return told


def test_all_words_are_escaped(text: str) -> None:
    assert "alert(1)" in text
    assert "<script>alert" not in text
    seen = Seen(text)
    assert seen.tags.count("script") == 3  # the charts, plotly, the page's own
    assert len(seen.ids) == len(set(seen.ids))


def test_nothing_is_asked_of_another_machine(text: str) -> None:
    assert all(address.startswith(("data:", "#")) for address in Seen(text).addresses)
    assert "default-src 'none'" in text
    assert text.count("plotly.js v") == 1


def test_every_chart_and_table_is_there(text: str) -> None:
    charts, seen = data(text)["charts"], Seen(text)
    assert len(charts) == len(CHARTS)  # less the pictures, and one more
    assert set(charts) <= set(seen.ids)
    assert seen.tags.count("table") == 1
    assert seen.tags.count("img") == 3
    assert "61.23" in text
    assert 'data-value="93.50"' in text


def test_what_is_no_number_is_absent_and_tags_are_words(text: str) -> None:
    last = [chart for chart in data(text)["charts"].values() if chart["data"][0].get("name", "").endswith('quotes"')]
    assert last[0]["data"][0]["y"] == [1, None]
    assert last[0]["data"][0]["name"].startswith("&lt;script")


def test_what_labels_tuned_is_stamped() -> None:
    plain = Chart("a", "Accuracy", "lines", series=[Series("a", [1], [1])])
    assert '<span class="stamp">' not in page([Outcome("o", "o", charts=[plain])], "t")
    assert '<span class="stamp">' in page([Outcome("o", "o", charts=[CHARTS["surface"]])], "t")


def test_a_page_is_there_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "page.html"
    write_page([], file, "First")
    monkeypatch.setattr("cosmic_tta.drawing.page.page", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        write_page([], file, "Second")
    assert "<h1>First</h1>" in file.read_text(encoding="utf-8")
    assert list(tmp_path.iterdir()) == [file]


def test_without_plotly_one_is_told_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(needs, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"need plotly, not installed: pip install 'cosmic-tta\[report\]'"):
        write_page([], tmp_path / "page.html", "t")
