from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cosmic_tta.evaluation.benchmark_summary import LeftOutResult, average_seeds, summarize_benchmark
from cosmic_tta.evaluation.report import Report
from cosmic_tta.reporting.benchmark_page import (
    AUX_FILTER,
    CSV_COLUMNS,
    STREAM_FILTER,
    BenchmarkDescription,
    aux_views,
    benchmark_markdown,
    benchmark_sections,
    gain_table,
    leave_one_out_table,
    runs_table,
    setting_table,
    stream_table,
    write_benchmark,
)
from cosmic_tta.reporting.plotting import requirements

FIRST = Report(
    "pets", "tda", "default", {}, "shuffle", "given", 0, 50,
    {"acc1": 0.62, "zero_shot_acc1": 0.6, "gain": 0.02, "ece": 0.05}, 0.5, 0.1, {"cosmic-tta": "9.9"}, {},
)  # fmt: skip
DESCRIPTION = BenchmarkDescription("9.9", "cosmic benchmark packs", ("pets", "cars"), (0, 1), ("Nothing <b>else</b>.",))


def report(gain: float, **changes: Any) -> Report:
    metrics = FIRST.metrics | {"acc1": 0.6 + gain, "gain": gain} | changes.pop("metrics", {})
    return replace(FIRST, metrics=metrics, **changes)


REPORTS = [
    report(0.02),
    report(0.04, seed=1),
    report(-0.01, aux="none"),
    report(0.01, pack="cars", aux="none"),
    report(0.05, order="open-set", metrics={"auroc": 0.7}),
    report(0.0, method="zero_shot"),
    report(0.0, method="zero_shot", aux="none"),
]


def test_the_csv_has_one_row_per_run(tmp_path: Path) -> None:
    table = runs_table(REPORTS)
    assert table.columns == CSV_COLUMNS
    assert table.rows[0] == ("tda", "pets", "given", "shuffle", 0, 0.62, 0.6, 0.02, 0.05, None, 0.5, 0.1, "9.9")
    write_benchmark(tmp_path, REPORTS, DESCRIPTION)
    rows = list(csv.DictReader((tmp_path / "results.csv").read_text(encoding="utf-8").splitlines()))
    assert len(rows) == len(REPORTS)
    assert (rows[4]["auroc"], rows[0]["auroc"], float(rows[2]["gain"])) == ("0.7", "", -0.01)


def test_gains_per_method_and_stream_are_signed_points() -> None:
    table = gain_table(summarize_benchmark(average_seeds(REPORTS)), "Gain")
    assert table.columns == ("method", "shuffle", "open-set", "all streams")
    assert table.rows == [("tda", "+1.00", "+5.00", "+2.00"), ("zero_shot", "+0.00", "–", "+0.00")]


def test_a_stream_has_worst_rank_and_what_is_incomplete() -> None:
    table = stream_table("shuffle", summarize_benchmark(average_seeds(REPORTS))["shuffle"])
    assert table.rows[0][:6] == ("tda", "+1.00", "-1.00 to +3.00", "-1.00", "pets / none", "1.33")
    assert table.note == "Not comparable with the others: zero_shot has 2 of 3 results."
    gains = setting_table(average_seeds(REPORTS), "Packs")
    assert gains.rows[0] == ("pets / given", "+4.00", "+0.00")
    assert gains.rows[2] == ("cars / none", "+1.00", "–")


def test_views_are_all_and_each_kind_of_auxiliary_features() -> None:
    results = average_seeds(REPORTS)
    assert {name: len(view) for name, view in aux_views(results).items()} == {"given + none": 6, "given": 3, "none": 3}
    assert list(aux_views([one for one in results if one.setting.aux == "none"])) == ["none"]


def test_leaving_one_out_ends_with_the_mean() -> None:
    rows = [LeftOutResult("P", "tda shots=2", 0.03, 0.01), LeftOutResult("Q", "tda", 0.01, 0.01)]
    table = leave_one_out_table(rows)
    assert table.rows[0] == ("P", "tda shots=2", "+3.00", "+1.00", "+2.00")
    assert table.rows[-1] == ("mean", "–", "+2.00", "+1.00", "+1.00")
    assert "| P | tda shots=2 | +3.00 |" in benchmark_markdown(REPORTS, DESCRIPTION, rows)


def test_the_markdown_names_version_seeds_packs_and_command() -> None:
    text = benchmark_markdown(REPORTS, DESCRIPTION)
    assert text.startswith("# Benchmark\n\n- cosmic-tta 9.9; seeds 0, 1; packs pets, cars.\n")
    assert "- Command: cosmic benchmark packs" in text
    assert "- Nothing <b>else</b>." in text
    titles = [line for line in text.splitlines() if line.startswith("**")]
    assert titles[-3:] == ["**all streams**", "**shuffle**", "**open-set**"]
    assert len(titles) == 6


def test_tables_of_the_page_are_tagged_by_stream_and_auxiliary_features() -> None:
    gains, streams, settings = benchmark_sections(REPORTS)
    assert [table.tags[AUX_FILTER] for table in gains.tables] == [("given + none",), ("given",), ("none",)]
    assert len(gains.charts) == 3
    shown = [table.tags[STREAM_FILTER] for table in streams.tables if table.tags[AUX_FILTER] == ("given",)]
    assert shown == [("all streams",), ("all streams", "shuffle"), ("all streams", "open-set")]
    assert {len(table.tags[STREAM_FILTER]) for table in settings.tables} == {1}


def test_without_plotly_there_is_no_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requirements, "find_spec", lambda name: None)
    assert [file.name for file in write_benchmark(tmp_path, REPORTS, DESCRIPTION)] == ["results.csv", "results.md"]


@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_filters_and_sorts_in_a_browser(browser: Any, tmp_path: Path, width: int) -> None:
    write_benchmark(tmp_path, REPORTS, DESCRIPTION)
    page, problems = browser.new_page(viewport={"width": width, "height": 900}), []
    page.on("console", lambda message: problems.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.goto((tmp_path / "index.html").as_uri())
    visible = "[...document.querySelectorAll('.table:not([hidden]) h3')].map((head) => head.textContent)"
    assert len(page.evaluate(visible)) == 1 + 3 + 1
    page.locator("select[data-name=stream]").select_option("open-set")
    page.locator("select[data-name=aux]").select_option("given")
    heads = page.evaluate(visible)
    assert heads[1:] == ["open-set, aux given", "Gain per pack: open-set, aux given"]
    page.wait_for_function("document.querySelectorAll('figure:not([hidden]) .plot[data-drawn]').length === 1")
    first = page.locator(".table:not([hidden]) table").first
    first.get_by_role("button", name="shuffle").click()
    assert first.locator("tbody tr td").first.inner_text() == "zero_shot"
    first.get_by_role("button", name="shuffle").click()
    assert first.locator("tbody tr td").first.inner_text() == "tda"
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert problems == []
    page.close()
