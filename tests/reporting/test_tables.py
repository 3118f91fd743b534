from __future__ import annotations

import csv
import io

from cosmic_tta.reporting import tables
from cosmic_tta.reporting.chart_data import Table

TABLE = Table(
    "a-table",
    "50 % & more_of {it}",
    ("method", "accuracy", "β, oracle"),
    [("cosmic@paper | x", 93.756, None), ("CLIP_1", "71.54 ± 0.10", 95.0)],
    "A note with 1 % in it.",
)


def test_rows_for_a_terminal() -> None:
    assert tables.text_rows(TABLE) == [("cosmic@paper | x", "93.76", "–"), ("CLIP_1", "71.54 ± 0.10", "95.00")]


def test_markdown_keeps_its_columns() -> None:
    lines = tables.markdown(TABLE).splitlines()
    drawn = [line for line in lines if line.startswith("|")]
    assert len(drawn) == 4
    assert {line.replace(r"\|", "").count("|") for line in drawn} == {4}
    assert lines[-1] == TABLE.note


def test_csv_is_read_back_as_it_was() -> None:
    read = list(csv.reader(io.StringIO(tables.as_csv(TABLE))))
    assert read == [
        ["method", "accuracy", "β, oracle"],
        ["cosmic@paper | x", "93.756", ""],
        ["CLIP_1", "71.54 ± 0.10", "95.0"],
    ]


def test_latex_is_escaped_and_marks_what_was_tuned_on_labels() -> None:
    text = tables.latex(TABLE)
    assert r"\caption{50 \% \& more\_of \{it\}}" in text
    assert r"\begin{tabular}{lrr}" in text
    assert r"method & accuracy & $\beta$, oracle$^\dagger$ \\" in text
    assert r"CLIP\_1 & 71.54 $\pm$ 0.10 & 95.00 \\" in text
    assert "tuned on the labels" in text
    body = text[text.index(r"\toprule") : text.index(r"\bottomrule")]
    rows = [line for line in body.splitlines() if "&" in line.replace(r"\&", "")]
    assert {line.replace(r"\&", "").count("&") for line in rows} == {2}
    honest = Table("b", "b", ("method", "accuracy"), [("x", 1.0)])
    assert "dagger" not in tables.latex(honest)


def test_an_empty_table_is_written() -> None:
    empty = Table("empty", "empty", ("a", "b"), [])
    assert r"\begin{tabular}{ll}" in tables.latex(empty)
    assert tables.as_csv(empty) == "a,b\n"
