from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cosmic_tta.cli.app import main
from cosmic_tta.cli.bench import runner

TIMES = {
    "floor_memory", "step", "step_aux_cache", "step_8", "tda", "dmn", "floor_css_product", "floor_afv_product",
    "rebuild", "block", "one_by_one", "floor_bayes", "bayes_means", "bayes_means_worst", "cold", "cold_rebuilds",
}  # fmt: skip
TEXTBOOK_TIMES = {"textbook_tda", "textbook_cold"}
TINY = ("--classes", "4,8", "--dim", "16", "--aux-dim", "8", "--shots", "2")


def run(*words: str) -> int:
    with pytest.raises(SystemExit) as stop:
        main(["bench", *words])
    return int(stop.value.code or 0)


def numbers(value: Any) -> Iterator[float]:
    for part in value.values():
        yield from numbers(part) if isinstance(part, dict) else [part]


def test_every_figure_is_measured_and_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("networkx")
    file = tmp_path / "bench.json"
    assert run(*TINY, "--no-threads", "--json", str(file)) == 0
    shown, result = capsys.readouterr().out, json.loads(file.read_text())
    assert set(result) == {
        "machine", "software", "path", "textbook", "settings", "classes", "ratios", "exponents",
    }  # fmt: skip
    assert set(result["classes"]) == set(result["ratios"]) == {"4", "8"}
    for figures in result["classes"].values():
        assert set(figures) == TIMES | TEXTBOOK_TIMES | {"state_mb"}
        assert set(figures["state_mb"]) == {"step", "step_aux_cache", "step_8", "tda", "dmn", "bayes_means"}
        assert 0 < figures["cold_rebuilds"] <= 100
        assert figures["bayes_means"] <= figures["bayes_means_worst"]
    assert all(set(row) == set(runner.RATIOS) for row in result["ratios"].values())
    assert set(result["exponents"]) == {"step", "rebuild", "cold"}
    assert all(
        math.isfinite(number) and number > 0 for part in ("classes", "ratios") for number in numbers(result[part])
    )
    assert all(map(math.isfinite, result["exponents"].values()))
    assert result["settings"]["shots"] == 2
    for word in (*TIMES, *runner.RATIOS, "goal", result["path"]):
        assert word in shown


def test_threads_are_measured_and_json_is_alone_on_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--classes", "4", *TINY[2:], "--samples", "10", "--methods", "tip_adapter", "--json") == 0
    result = json.loads(capsys.readouterr().out)
    row = result["threads"]["classes"]["4"]
    assert {name: set(sides) for name, sides in row.items()} == {
        name: {"one", "all", "ratio"} for name in ("step", "rebuild", "cold", "tip_adapter")
    }
    assert all(math.isfinite(number) and number > 0 for number in numbers(row))
    assert result["exponents"] == {}
    assert "tip_adapter" in result["classes"]["4"]
    assert "bayes_means" not in result["classes"]["4"]
    assert "threads" in str(runner.tables(result))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--classes", "4,many"], "--classes takes whole numbers, at least 2"),
        (["--classes", "0"], "--classes takes whole numbers, at least 2"),
        (["--classes", "-4"], "--classes takes whole numbers, at least 2"),
        (["--classes", ""], "--classes takes whole numbers, at least 2"),
        (["--classes", "4,4"], "names one twice"),
        (["--methods", "tdaa"], "did you mean 'tda'?"),
        (["--methods", "tda@best"], "unknown preset of tda 'best'"),
        (["--methods", "tda,tda@default"], "names one twice"),
        (["--aux-dim", "0"], "--aux-dim must be at least 1; given 0"),
        (["--samples", "0"], "--samples must be at least 1; given 0"),
        (["--json", "nowhere/bench.json"], "cannot write 'nowhere/bench.json'"),
    ],
)
def test_bad_input_is_one_clear_sentence(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*words) == 2
    complaint = capsys.readouterr().err
    assert said in complaint
    assert complaint.count("\n") == 1


def test_a_process_that_fails_is_one_clear_sentence(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(runner, "_command", lambda what, settings: [sys.executable, "-c", "raise SystemExit(3)"])
    assert run(*TINY) == 2
    assert "ended with exit code 3" in capfd.readouterr().err


def test_figures_that_were_not_measured_are_left_out() -> None:
    assert "textbook_cold/cold" not in runner.ratios({"cold": 1.0})
    assert runner.remarks({"textbook": "it is missing"}) == ["The textbook was not measured: it is missing."]
    assert runner.remarks({"textbook": "there", "threads": {"absent": "no module"}}) == [
        "Several BLAS threads were not measured: no module."
    ]


def test_a_large_graph_is_reported_in_a_sentence() -> None:
    large = {"nodes": 20000, "classes": 10000, "rebuild_s": 4.25, "peak_mb": 1234.0}
    (sentence,) = runner.remarks({"textbook": "there", "large": large})
    assert "20,000 nodes (10,000 classes): 4.2 s, peak memory 1,234 MB" in sentence


def test_exponents_need_several_numbers_of_classes() -> None:
    assert runner.exponents({"10": {"step": 1.0}}) == {}
    figures = {"10": {"step": 1.0, "other": 1.0}, "100": {"step": 10.0, "other": 1.0}}
    assert runner.exponents(figures) == {"step": pytest.approx(1.0)}
