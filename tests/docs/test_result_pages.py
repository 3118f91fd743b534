"""tools/result_pages.py writes the tables of docs/results from a CSV of results."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import ROOT

TOOL = ROOT / "tools" / "result_pages.py"
HEAD = "method,pack,aux,stream,seed,acc1,zero_shot_acc1,gain,ece,auroc,ms_per_sample,state_mb,version\n"
ROWS = """zero_shot,one,none,shuffle,0,0.5,0.5,0,0.1,,1,1,0.1.0
zero_shot,one,none,open-set,0,0.5,0.5,0,0.1,0.75,1,1,0.1.0
zero_shot,two,given,shuffle,0,0.25,0.25,0,0.1,,1,1,0.1.0
zero_shot,two,given,open-set,0,0.25,0.25,0,0.1,0.5,1,1,0.1.0
tda,one,none,shuffle,0,0.6,0.5,0.1,0.2,,1,1,0.1.0
tda,one,none,shuffle,1,0.7,0.5,0.2,0.2,,1,1,0.1.0
tda,one,none,open-set,0,0.6,0.5,0.1,0.2,0.8,1,1,0.1.0
tda,two,given,shuffle,0,0.25,0.25,0,0.2,,1,1,0.1.0
tda,two,given,open-set,0,0.2,0.25,-0.05,0.2,0.8,1,1,0.1.0
"""


def write_page(folder: Path, *tables: str) -> Path:
    page = folder / "page.md"
    page.write_text("# Page\n\n" + "\n\n".join(f"<!-- table: {name} -->\nold\n<!-- end -->" for name in tables))
    (folder / "results.csv").write_text(HEAD + ROWS)
    return page


def run(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(TOOL), str(folder / "results.csv"), "--docs", str(folder)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_tables_are_means_over_seeds(tmp_path: Path) -> None:
    page = write_page(tmp_path, "accuracy", "gain shuffle", "ece shuffle", "auroc open-set", "conditions")
    assert run(tmp_path).returncode == 0
    text = page.read_text()
    assert "old" not in text
    assert "| pack, auxiliary features | zero-shot | `tda` |" in text
    assert "| one, none | 50.00 | **65.00** |\n| two, given | **25.00** | **25.00** |" in text
    assert "| one, none | +0.00 | **+15.00** |" in text
    assert "| one, none | **10.0** | 20.0 |" in text
    assert "| one, none | 75.0 | **80.0** |" in text
    assert "Version 0.1.0, seeds 0, 1, 9 runs." in text


def test_gains_are_means_over_settings_and_equal_ones_share_a_rank(tmp_path: Path) -> None:
    page = write_page(tmp_path, "gains")
    assert run(tmp_path).returncode == 0
    lines = page.read_text().splitlines()
    assert "| shuffled | +0.00 | **+7.50** |" in lines
    assert "| open set | +0.00 | **+2.50** |" in lines
    assert "| all | +0.00 | **+5.00** |" in lines
    assert "| worst setting | **+0.00** | -5.00 |" in lines
    assert "| mean rank | 1.62 | **1.38** |" in lines  # ranks 2, 1.5, 2, 1 and 1, 1.5, 1, 2


def test_the_rest_of_a_page_stays_and_a_second_run_changes_nothing(tmp_path: Path) -> None:
    page = write_page(tmp_path, "gains")
    page.write_text(page.read_text() + "\n\nThe end.\n")
    run(tmp_path)
    text = page.read_text()
    assert text.startswith("# Page\n\n<!-- table: gains -->\n\n| stream |")
    assert text.endswith("<!-- end -->\n\nThe end.\n")
    assert run(tmp_path).stdout == ""
    assert page.read_text() == text


@pytest.mark.parametrize("name", ["wrong", "gain wrong", "wrong shuffle"])
def test_an_unknown_table_is_named(tmp_path: Path, name: str) -> None:
    page = write_page(tmp_path, name)
    before = page.read_text()
    result = run(tmp_path)
    assert result.returncode == 1
    assert f"no table is named '{name}'" in result.stderr
    assert page.read_text() == before
