"""The service's page in a real browser: made, watched, killed, come back; wrong presses; a thousand classes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from serving import Running, features, photograph, rows, until

from cosmic_tta.client import Client
from cosmic_tta.core import Sample
from cosmic_tta.ops import unit

pytestmark = pytest.mark.pathless
sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
SOON = 30_000  # ms
LONG_TASKS = """
window.longest = [];
new PerformanceObserver((list) => list.getEntries().forEach((one) => window.longest.push(one.duration)))
  .observe({type: 'longtask', buffered: true});
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with Running(tmp_path_factory.mktemp("page") / "streams", "--policy", "everysec") as running:
        running.client()
        yield running


class Watched:
    """A page, what it complained of, and where it asked."""

    def __init__(self, browser: Any, url: str, **how: Any) -> None:
        self.context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **how})
        self.page = self.context.new_page()
        self.page.set_default_timeout(SOON)
        self.url = url
        self.told: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", lambda one: self.told.append(one.text) if one.type in ("error", "warning") else None)
        self.page.on("pageerror", lambda error: self.told.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))

    def open(self, stream: str = "") -> Any:
        self.page.goto(f"{self.url}/#{stream}")
        return self.page

    def says(self, words: str) -> None:
        """A sentence at the foot of the page."""
        self.page.locator("#notes .note", has_text=words).first.wait_for()

    def leave(self, *, refused: bool = False, lost: bool = False) -> None:
        """Nothing was asked of another host; no error, but for what the browser says of answers that were none."""
        strangers = [url for url in self.asked if not url.startswith((self.url, "data:", "blob:"))]
        assert strangers == []
        known = ["the server responded with a status of 4"] if refused else []
        known += ["net::ERR_", "status of 503"] if lost else []  # gone, then still reading its streams
        assert [one for one in self.told if not any(words in one for words in known)] == []
        self.context.close()


@contextmanager
def watched(browser: Any, url: str, **how: Any) -> Iterator[Watched]:
    refused, lost, charts = how.pop("refused", False), how.pop("lost", False), how.pop("charts", True)
    one = Watched(browser, url, **how)
    if not charts:  # where nobody looks at them, the library's start is not waited for
        stub = "window.Plotly = {react: async () => {}};"
        one.page.route("**/page/plotly.js", lambda route: route.fulfill(body=stub, content_type="text/javascript"))
    yield one
    one.leave(refused=refused, lost=lost)


def photographs(*numbers: int) -> list[dict[str, Any]]:
    return [{"name": f"{one}.png", "mimeType": "image/png", "buffer": photograph(one)} for one in numbers]


def tile(page: Any, title: str) -> str:
    return str(page.locator(".tile", has_text=title).locator("b").inner_text())


def test_made_fed_killed_and_back_with_nothing_lost(browser: Any, tmp_path: Path) -> None:
    data = tmp_path / "streams"
    with (
        ExitStack() as servers,
        watched(browser, (server := servers.enter_context(Running(data))).url, lost=True) as one,
    ):
        server.client()
        page = one.open()
        page.locator("main >> text=New stream").click()
        page.keyboard.type("harbour")
        page.keyboard.press("Tab")
        page.keyboard.type("airplane\ncat\nship\ntruck")
        page.locator("#c-method").select_option("cosmic")
        page.get_by_role("button", name="Create").press("Enter")
        page.locator("h1", has_text="harbour").wait_for()
        page.locator("#connection.good").wait_for()
        page.locator("#learns").check()
        page.locator("#files").set_input_files(photographs(1, 2, 3))
        page.locator(".result >> nth=2").wait_for()
        assert "learned as step 1" in page.locator(".result >> nth=2").inner_text()
        page.locator("#sureness[data-last='3']").wait_for()
        page.locator(".graph line.strong").first.wait_for()

        stream = Client(server.url).stream("harbour")  # somebody else sends, and the chart moves
        stream.predict([photograph(k) for k in range(4, 9)], source="roof")
        page.locator("#sureness[data-last='8']").wait_for()
        page.locator(".held img.thumb[src^='blob:'] >> nth=7").wait_for()
        page.locator(".card >> nth=0").get_by_role("button", name="is").click()
        one.says("was")
        page.locator("#accuracy[data-points='1']").wait_for()
        assert one.told == []
        before = stream.describe(digest=True)

        server.kill()
        page.locator("#connection", has_text="reconnecting").wait_for()
        server = servers.enter_context(Running(data, "--port", str(server.port)))
        page.locator("#connection", has_text="live").wait_for()
        page.locator("#accuracy[data-points='1']").wait_for()
        after = server.client().stream("harbour").describe(digest=True)
        assert after["digest"] == before["digest"]
        assert tile(page, "Answered") == "8"
        assert page.locator("td", has_text="roof").count() == 1
        page.locator("#files").set_input_files(photographs(30))
        page.locator("#sureness[data-last='10']").wait_for()
        assert tile(page, "Answered") == "9"
        page.locator(".held img.thumb[src^='blob:'] >> nth=8").wait_for()
        complaints = server.stop()
        assert "Traceback" not in complaints


def test_wrong_presses_are_answered_and_the_stream_goes_on(browser: Any, server: Running) -> None:
    stream = server.client().create("pressed", ["cat", "ship", "truck"])
    stream.predict([photograph(k) for k in range(4)], source="roof")
    how = {"refused": True, "charts": False}
    with watched(browser, server.url, **how) as one, watched(browser, server.url, **how) as other:

        def stale(route: Any) -> Any:  # a page that has not heard for long
            response = route.fetch()
            if not response.ok:  # the stream is gone at the end
                return route.fulfill(response=response)
            told = response.json()
            told["unsure"][0]["number"] = 424242
            told["snapshots"].append({"id": "000000424242", "number": 424242, "note": "gone"})
            told["paused"] = False
            told["sources"] = [{"name": "roof", "first": 1, "steps": 4}]
            return route.fulfill(json=told)

        one.page.route("**/overview", stale)
        page = one.open("pressed")
        page.locator(".card >> nth=0").get_by_role("button", name="is").click()
        one.says("no remembered answer has the number 424242")
        field = page.locator(".card >> nth=1").locator("input")
        field.fill("zeppelin")
        field.press("Enter")
        one.says("zeppelin")
        page.get_by_role("button", name="Roll back to event 424242").click()
        page.locator("dialog").get_by_role("button", name="Roll back").click()
        one.says("it may have been pruned")

        beside = other.open("pressed")  # two press the same button
        beside.get_by_role("button", name="Undo roof").click()
        page.get_by_role("button", name="Undo roof").click()
        beside.locator("dialog").get_by_role("button", name="Undo").click()
        other.says("is undone")
        page.locator("dialog").get_by_role("button", name="Undo").click()
        one.says("no source 'roof'")
        beside.get_by_role("button", name="Pause").click()
        other.says("learns nothing")
        page.get_by_role("button", name="Pause").click()
        one.says("learns nothing")
        assert stream.describe()["paused"]
        stream.resume()
        beside.get_by_role("button", name="Pause").wait_for()  # the other page hears of it
        assert stream.predict([photograph(9)])[0]["learned"]
        page.get_by_role("button", name="Delete").click()
        page.locator("dialog").get_by_role("button", name="Delete").click()
        other.says("deleted")


def test_alarms_are_shown_and_answered_with_one_press(browser: Any, server: Running) -> None:
    stream = server.client().create("alarmed", ["cat", "ship", "truck"])
    stream.predict([photograph(k) for k in range(4)])
    with watched(browser, server.url, charts=False) as one:

        def alarmed(route: Any) -> None:
            told = route.fetch().json()
            told["alarms"] = [{"kind": "drift", "since": 3, "detail": "the pictures changed."}]
            route.fulfill(json=told)

        one.page.route("**/overview", alarmed)
        page = one.open("alarmed")
        page.locator(".banner", has_text="the pictures changed").wait_for()
        assert "the pictures changed" in page.locator("#alarms[aria-live=assertive]").inner_text()
        page.locator(".banner").get_by_role("button", name="Pause").click()
        until(lambda: stream.describe()["paused"])
        page.locator(".banner").get_by_role("button", name="Roll back to event 0").click()
        page.locator("dialog").get_by_role("button", name="Roll back").click()
        until(lambda: stream.describe()["seen"] == 0)
    stream.delete()


def worked(session: Any) -> float:
    """Seconds of CPU that the page's main thread has taken: what others do on the machine is not in it."""
    told = {one["name"]: one["value"] for one in session.send("Performance.getMetrics")["metrics"]}
    return float(told["TaskDuration"])


def test_a_thousand_classes_do_not_freeze_it(browser: Any, server: Running) -> None:
    client, taken, longest = server.client(), {}, {}
    for classes in (4, 1000):
        text = rows(classes, 32, seed=5)
        names = [f"class number {number}" for number in range(classes)]
        stream = client.create("wide", names, encoder=None, text=text.tolist(), method="cosmic")
        given = features([Sample(unit(text[k % classes] + 0.1 * rows(1, 32, seed=k)[0])[None]) for k in range(150)])
        stream.predict_features(given[:50], top=1, source="roof")
        with watched(browser, server.url) as one:
            one.page.add_init_script(LONG_TASKS)
            session = one.context.new_cdp_session(one.page)
            session.send("Performance.enable", {"timeDomain": "threadTicks"})
            page = one.open("wide")
            page.locator("#sureness[data-last='50']").wait_for()
            start, first = worked(session), page.evaluate("Math.max(0, ...window.longest)")
            page.evaluate("window.longest = []")
            for at in range(50, 150, 10):
                stream.predict_features(given[at : at + 10], top=1)
            page.locator("#sureness[data-last='150']").wait_for()
            page.locator(".card input").first.focus()
            page.locator(f"#class-names option >> nth={classes - 1}").wait_for(state="attached")
            page.locator("#find").fill("class number 99" if classes > 4 else "class number 3")
            page.locator(".pager").wait_for(state="detached")
            page.locator(f".held >> nth={11 if classes > 4 else 1}").wait_for(state="detached")
            taken[classes] = (start, worked(session) - start)
            longest[classes] = (first, page.evaluate("Math.max(0, ...window.longest)"))
            assert page.evaluate("document.querySelectorAll('*').length") < 4000
        stream.delete()
    for classes in taken:
        (start, late), (first, after) = taken[classes], longest[classes]
        print(
            f"{classes:,} classes: CPU {start:.2f} s to the first chart, {late:.2f} s for what followed; "
            f"longest task {first:.0f} ms, then {after:.0f} ms"
        )
    assert 0 < taken[1000][0] < taken[4][0] + 1.0  # what plotly takes to start is the same
    assert taken[1000][1] < 3.0


def test_the_token_is_asked_for_kept_in_the_tab_and_in_no_address(browser: Any, tmp_path: Path) -> None:
    token = "a-token-of-more-than-sixteen"
    (tmp_path / "token").write_text(token)
    with Running(tmp_path / "streams", "--token-file", str(tmp_path / "token")) as server:
        server.client(token).create("secret", ["cat", "ship"])
        with watched(browser, server.url, refused=True, charts=False) as one:
            page = one.open()
            for word in ("not-the-right-token-at-all", token):
                page.locator("#token").fill(word)
                page.get_by_role("button", name="Open").click()
            page.locator("h1", has_text="secret").wait_for()
            page.locator("#connection.good").wait_for()
            page.reload()
            page.locator("h1", has_text="secret").wait_for()
            assert page.evaluate("localStorage.length") == 0
            assert not any(token in url for url in one.asked)


def test_it_fits_a_phone_in_the_dark_and_can_do_without_plotly(browser: Any, server: Running) -> None:
    stream = server.client().create("small", ["cat", "ship", "truck", "automobile"])
    stream.predict([photograph(k) for k in range(6)], source="a source of a long name " * 4)
    phone = {"viewport": {"width": 390, "height": 800}, "color_scheme": "dark", "has_touch": True}
    with watched(browser, server.url, **phone) as one:
        page = one.open("small")
        page.locator("#sureness[data-last='6']").wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(15, 19, 23)"
        small = page.evaluate(
            "[...document.querySelectorAll('button:not(.quiet)')]"
            ".filter((one) => one.offsetHeight && one.offsetHeight < 32).length"
        )
        assert small == 0
        named = page.evaluate(
            "[...document.querySelectorAll('main button, main input, main a')]"
            ".every((one) => one.innerText || one.ariaLabel || one.labels?.length)"
        )
        assert named
    with watched(browser, server.url) as one:

        def without(route: Any) -> None:
            route.fulfill(json={**route.fetch().json(), "plotly": False})

        one.page.route("**/v1/watch", without)
        page = one.open("small")
        page.locator("#sureness", has_text="pip install").wait_for()
        assert page.locator(".held").count() == 4
        assert not any(url.endswith("plotly.js") for url in one.asked)
        page.keyboard.press("Tab")
        page.keyboard.press("Tab")
        ring = page.evaluate("getComputedStyle(document.activeElement).outlineStyle + document.activeElement.tagName")
        assert ring.startswith("solid")
    stream.delete()
