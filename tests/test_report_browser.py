"""The page of a small demo in a real browser: every figure drawn, nothing asked of another machine, no error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cosmic_tta.cli import main

pytestmark = pytest.mark.pathless

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
DRAWN = """() => [...document.querySelectorAll('.plot')].map((plot) => ({
  theme: plot.dataset.drawn ?? '',
  marks: plot.querySelectorAll('.scatterlayer .trace, .barlayer .trace, .heatmaplayer image').length,
  width: plot.querySelector('.main-svg')?.getBoundingClientRect().width ?? 0,
  place: plot.clientWidth,
}))"""


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("demo")
    with pytest.raises(SystemExit) as end:
        main(["demo", "--images=400", f"--picture={folder / 'demo.png'}", "--json", str(folder / "demo.json")])
    assert end.value.code == 0
    return folder / "demo.html"


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 390)])
def test_the_demo_page_is_drawn_and_asks_nobody(browser: Any, demo: Path, scheme: str, width: int) -> None:
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page, told, asked = context.new_page(), [], []

    def answer(route: Any) -> None:
        address = route.request.url
        if address.startswith(("file:", "data:", "blob:")):
            route.continue_()
        else:
            asked.append(address)
            route.abort()

    page.route("**/*", answer)
    page.on("console", lambda message: told.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: told.append(str(error)))
    page.goto(demo.as_uri())
    page.wait_for_function("document.querySelectorAll('.plot:not([data-drawn])').length === 0")
    drawn = page.evaluate(DRAWN)
    assert len(drawn) >= 10
    for plot in drawn:
        assert plot["theme"] == scheme
        assert plot["marks"] > 0
        assert 0 < plot["width"] <= plot["place"] + 1
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate("[...document.images].every((image) => image.complete && image.naturalWidth > 0)")
    assert page.evaluate("document.images.length") > 10

    other = "dark" if scheme == "light" else "light"
    page.locator("#theme").press("Enter")  # by keyboard
    page.wait_for_function(f"document.querySelectorAll('.plot:not([data-drawn={other}])').length === 0")
    assert page.evaluate("document.documentElement.dataset.theme") == other

    heads = page.locator("table").first.locator("th button")
    heads.nth(1).click()
    column = "[...document.querySelector('table').tBodies[0].rows].map((row) => parseFloat(row.cells[1].dataset.value))"
    values = page.evaluate(column)
    assert values == sorted(values)
    heads.nth(1).click()
    assert page.evaluate(column) == sorted(values, reverse=True)
    assert told == []
    assert asked == []
    context.close()


def test_the_page_prints_light(browser: Any, demo: Path) -> None:
    context = browser.new_context(color_scheme="dark")
    page = context.new_page()
    page.goto(demo.as_uri())
    page.wait_for_function("document.querySelectorAll('.plot:not([data-drawn])').length === 0")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.wait_for_function("document.querySelectorAll('.plot:not([data-drawn=light])').length === 0")
    assert page.pdf()[:4] == b"%PDF"
    context.close()
