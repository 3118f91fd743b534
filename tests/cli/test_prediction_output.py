from __future__ import annotations

import json
from typing import Any

import pytest

from cosmic_tta.cli.prediction_output import FORMATS, NoOutput

ROW: dict[str, Any] = {
    "path": "a, b.png",
    "answers": [{"label": "cat", "score": 0.75}, {"label": "dog", "score": 0.25}],
}


def test_csv_has_a_line_per_rank_and_quotes_what_needs_it(capsys: pytest.CaptureFixture[str]) -> None:
    output = FORMATS["csv"](2)
    output.add(ROW, [])
    output.close()
    lines = capsys.readouterr().out.splitlines()
    assert lines == ["path,rank,label,score", '"a, b.png",1,cat,0.750000', '"a, b.png",2,dog,0.250000']


def test_json_lines_are_printed_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    FORMATS["jsonl"](2).add(ROW, [])
    assert json.loads(capsys.readouterr().out) == ROW


def test_a_table_waits_for_the_last_row_and_ends_with_the_reasons(capsys: pytest.CaptureFixture[str]) -> None:
    output = FORMATS["table"](2)
    output.add(ROW, ["css: cat, dog"])
    assert capsys.readouterr().out == ""
    output.close()
    text = capsys.readouterr().out
    assert "0.750" in text
    assert "a, b.png: cat, because\n  css: cat, dog" in text


def test_no_output_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    output = NoOutput()
    output.add(ROW, ["reason"])
    output.close()
    assert capsys.readouterr().out == ""
