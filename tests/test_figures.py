from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from cosmic_tta.charts import Chart, Outcome, Series, Table
from cosmic_tta.drawing.palette import DARK, LIGHT, colour_places
from cosmic_tta.drawing.plots import plot
from cosmic_tta.drawing.shapes import hull, part_labels, spring_layout, surround
from cosmic_tta.errors import InputError, UnknownNameError
from cosmic_tta.figures import save_chart, save_outcome
from cosmic_tta.outcomes import outcome_files, read_outcome

pytestmark = pytest.mark.pathless

PIXELS = np.arange(8 * 8 * 3, dtype=np.uint8).reshape(8, 8, 3)
CHARTS = {
    "lines": Chart(
        "lines",
        "Lines",
        "lines",
        "x",
        "y",
        [Series("a", [1, 2, 3], [1, 2, float("nan")], [0.1, 0.2, 0.1]), Series("b", [1, 2, 3], [2, 1, 2], dashed=True)],
        note="A note.",
    ),
    "bars": Chart(
        "bars", "Bars", "bars", series=[Series("a", ["p", "q"], [1, 2], [0.1, 0.1]), Series("b", ["p", "q"], [3, 1])]
    ),
    "points": Chart(
        "points",
        "Points",
        "points",
        series=[Series("a", [0, 1], [0, 1], words=["u", "v"], told=True), Series("b", [1], [0], mark="*")],
        named=True,
        bare=True,
        outlines=[[(0, 0), (1, 0), (1, 1), (0, 0)]],
    ),
    "heat": Chart(
        "heat",
        "Heat",
        "heat",
        "column",
        "row",
        cells=[[0, 1], [2, float("nan")]],
        row_names=["a", "b"],
        column_names=["c", "d"],
        cell_format=".1f",
    ),
    "surface": Chart(
        "surface",
        "Surface (oracle)",
        "heat",
        cells=[[0, 1], [2, 3]],
        row_names=["0", "1"],
        column_names=["0", "1"],
        series=[Series("best", [1], [1])],
    ),
    "network": Chart(
        "network",
        "Network",
        "network",
        series=[Series("t", [0, 1], [0, 0], words=["a", "b"]), Series("v", [0.5], [1], words=["c"])],
        links=[(0, 1), (1, 2)],
        groups=[[0, 1, 2]],
    ),
    "pictures": Chart(
        "pictures", "Pictures", "pictures", pictures=[(PIXELS, "head\nand more"), (PIXELS, "other")], note="Seen."
    ),
}


@pytest.mark.parametrize("name", CHARTS)
def test_every_kind_is_drawn_in_every_format(name: str, tmp_path: Path) -> None:
    files = save_chart(CHARTS[name], tmp_path, ("png", "pdf", "svg"))
    assert [file.suffix for file in files] == [".png", ".pdf", ".svg"]
    with Image.open(files[0]) as picture:
        assert len(picture.convert("RGB").getcolors(1 << 24) or []) > 10
    assert files[1].read_bytes().startswith(b"%PDF")
    assert "<svg" in files[2].read_text(encoding="utf-8")


def test_the_same_chart_gives_the_same_file(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        save_chart(CHARTS["lines"], tmp_path / folder, ("svg", "pdf"))
    for name in ("lines.svg", "lines.pdf"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_an_outcome_comes_back_from_its_files(tmp_path: Path) -> None:
    table = Table("numbers", "Numbers_%", ("name", "value"), [("a_b", 1.5), ("c", None)], "A note.")
    outcome = Outcome("tried", "Tried", [table], list(CHARTS.values()), ["told"], ["absent"], {"seed": 0})
    files = save_outcome(outcome, tmp_path)
    assert {file.name for file in files} >= {
        "tried.outcome.json",
        "numbers.csv",
        "numbers.tex",
        "lines.png",
        "heat.png",
    }
    assert r"a\_b" in (tmp_path / "numbers.tex").read_text(encoding="utf-8")
    assert outcome_files(tmp_path) == [tmp_path / "tried.outcome.json"]
    again = read_outcome(tmp_path / "tried.outcome.json")
    assert (again.name, again.title, again.notes, again.missing) == ("tried", "Tried", ["told"], ["absent"])
    assert again.tables == [table]
    assert np.isnan(again.charts[0].series[0].y[2])
    assert np.array_equal(again.charts[-1].pictures[0][0], PIXELS)
    assert again.charts[-2].links == [(0, 1), (1, 2)]
    assert [plot(chart) for chart in again.charts[:-1]] == [plot(chart) for chart in list(CHARTS.values())[:-1]]


def test_a_foreign_or_damaged_outcome_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "a.outcome.json"
    for text, message in (
        ("{", "damaged"),
        ("[]", "format None"),
        ('{"format": 9}', "format 9"),
        ('{"format": 1}', "damaged"),
    ):
        file.write_text(text, encoding="utf-8")
        with pytest.raises(InputError, match=message):
            read_outcome(file)


def test_an_unknown_format_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'png'"):
        save_chart(CHARTS["lines"], tmp_path, ("pgn",))


def test_colours_are_the_wished_ones_or_free_ones() -> None:
    series = [Series(name, [], [], colour=colour) for name, colour in (("a", None), ("b", 0), ("c", -1), ("d", None))]
    assert colour_places(series) == [1, 0, -1, 2]
    assert len(set(LIGHT)) == len(set(DARK)) == len(LIGHT) == len(DARK)


def test_a_hull_surrounds_its_points() -> None:
    points = np.random.default_rng(0).standard_normal((30, 2))
    corners = hull(points)
    edges = np.roll(corners, -1, axis=0) - corners
    for point in points:
        away = point - corners
        assert (edges[:, 0] * away[:, 1] - edges[:, 1] * away[:, 0] >= -1e-9).all()  # never to the right of an edge
    outline = surround(points[:1], 0.5)
    assert np.allclose(np.linalg.norm(outline - points[0], axis=1), 0.5)
    assert np.array_equal(outline[0], outline[-1])


def test_linked_nodes_lie_nearer_than_others() -> None:
    links = [(a, b) for group in (range(5), range(5, 10)) for a in group for b in group if a < b]
    places = spring_layout(10, links)
    assert np.array_equal(places, spring_layout(10, links))
    distance = np.linalg.norm(places[:, None] - places[None], axis=2)
    same = np.array([[a // 5 == b // 5 for a in range(10)] for b in range(10)])
    assert distance[same].mean() < 0.5 * distance[~same].mean()
    assert np.abs(places).max() == pytest.approx(1)


def test_labels_are_parted_and_stay_in_order() -> None:
    heights = [3.0, 3.1, 2.9, 9.0]
    placed = part_labels(heights, 1.0)
    assert np.diff(sorted(placed)).min() >= 1.0 - 1e-9
    assert np.argsort(placed).tolist() == np.argsort(heights).tolist()
    assert placed[3] == 9.0
