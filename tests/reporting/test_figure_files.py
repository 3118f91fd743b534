from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

from cosmic_tta.core.errors import UnknownNameError
from cosmic_tta.reporting import figure_files
from cosmic_tta.reporting.chart_data import ResultSet, Table
from cosmic_tta.reporting.figure_files import save_chart, save_result_set
from tests.support.sample_charts import CHARTS


@pytest.mark.parametrize("name", CHARTS)
def test_every_kind_is_drawn_in_every_format(name: str, tmp_path: Path) -> None:
    files = save_chart(CHARTS[name], tmp_path, ("png", "pdf", "svg"))
    assert [file.suffix for file in files] == [".png", ".pdf", ".svg"]
    with Image.open(files[0]) as image:
        assert len(image.convert("RGB").getcolors(1 << 24) or []) > 10
    assert files[1].read_bytes().startswith(b"%PDF")
    assert "<svg" in files[2].read_text(encoding="utf-8")


def test_the_same_chart_gives_the_same_file(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        save_chart(CHARTS["lines"], tmp_path / folder, ("svg", "pdf"))
    for name in ("lines.svg", "lines.pdf"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


RESULTS = ResultSet(
    "tried", "Tried", [Table("numbers", "Numbers", ("name", "value"), [("a_b", 1.5)])], list(CHARTS.values())
)


def test_a_result_set_is_saved_as_json_tables_and_charts(tmp_path: Path) -> None:
    files = save_result_set(RESULTS, tmp_path)
    names = {"tried.results.json", "numbers.md", "numbers.csv", "numbers.tex"} | {f"{name}.png" for name in CHARTS}
    assert {file.name for file in files} == names
    assert all(file.exists() for file in files)
    assert r"a\_b" in (tmp_path / "numbers.tex").read_text(encoding="utf-8")


def test_without_matplotlib_charts_are_not_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figure_files, "find_spec", lambda name: None)
    files = save_result_set(RESULTS, tmp_path)
    assert [file.suffix for file in files] == [".json", ".md", ".csv", ".tex"]


def test_an_unknown_format_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'png'"):
        save_chart(CHARTS["lines"], tmp_path, ("pgn",))
    with pytest.raises(UnknownNameError, match="did you mean 'png'"):
        save_result_set(RESULTS, tmp_path / "new", ("pgn",))
    assert not (tmp_path / "new").exists()
