"""The page of a small demo in a browser: it draws every figure, makes no network request and logs no error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cosmic_tta.cli.app import main

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
DRAWN = """() => [...document.querySelectorAll('.plot')].map((plot) => ({
  theme: plot.dataset.drawn ?? '',
  marks: plot.querySelectorAll('.scatterlayer .trace, .barlayer .trace, .heatmaplayer image').length,
  width: plot.querySelector('.main-svg')?.getBoundingClientRect().width ?? 0,
  available: plot.clientWidth,
}))"""


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("demo")
    with pytest.raises(SystemExit) as end:
        main(["demo", "--images=400", f"--image={folder / 'demo.png'}", "--json", str(folder / "demo.json")])
    assert end.value.code == 0
    return folder / "demo.html"


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 390)])
def test_the_demo_page_is_drawn_without_network_requests(browser: Any, demo: Path, scheme: str, width: int) -> None:
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page, problems, requests = context.new_page(), [], []

    def refuse_network(route: Any) -> None:
        address = route.request.url
        if address.startswith(("file:", "data:", "blob:")):
            route.continue_()
        else:
            requests.append(address)
            route.abort()

    page.route("**/*", refuse_network)
    page.on("console", lambda message: problems.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.goto(demo.as_uri())
    page.wait_for_function("document.querySelectorAll('.plot:not([data-drawn])').length === 0")
    drawn = page.evaluate(DRAWN)
    assert len(drawn) >= 10
    for plot in drawn:
        assert plot["theme"] == scheme
        assert plot["marks"] > 0
        assert 0 < plot["width"] <= plot["available"] + 1
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
    assert problems == []
    assert requests == []
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
