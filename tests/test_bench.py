from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cosmic_tta import bench, bench_data
from cosmic_tta.bench_data import Stream, filled, official
from cosmic_tta.cli import main

TIMES = {
    "floor_memory", "step", "step_aux_cache", "step_8", "tda", "dmn", "floor_css_product", "floor_afv_product",
    "rebuild", "block", "one_by_one", "floor_bayes", "bayes_means", "bayes_means_worst", "cold", "cold_rebuilds",
}  # fmt: skip
OF_THE_TEXTBOOK = {"textbook_tda", "textbook_cold"}
TINY = ("--classes", "4,8", "--dim", "16", "--aux-dim", "8", "--shots", "2")


def run(*words: str) -> int:
    with pytest.raises(SystemExit) as stop:
        main(["bench", *words])
    return int(stop.value.code or 0)


def numbers(value: Any) -> Iterator[float]:
    for part in value.values():
        yield from numbers(part) if isinstance(part, dict) else [part]


def test_every_figure_is_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("networkx")
    file = tmp_path / "bench.json"
    assert run(*TINY, "--no-threads", "--json", str(file)) == 0
    shown, result = capsys.readouterr().out, json.loads(file.read_text())
    assert set(result) == {
        "machine", "software", "path", "textbook", "settings", "classes", "ratios", "exponents",
    }  # fmt: skip
    assert set(result["classes"]) == set(result["ratios"]) == {"4", "8"}
    for figures in result["classes"].values():
        assert set(figures) == TIMES | OF_THE_TEXTBOOK | {"state_mb"}
        assert set(figures["state_mb"]) == {"step", "step_aux_cache", "step_8", "tda", "dmn", "bayes_means"}
        assert 0 < figures["cold_rebuilds"] <= 100
        assert figures["bayes_means"] <= figures["bayes_means_worst"]
    assert all(set(row) == set(bench.RATIOS) for row in result["ratios"].values())
    assert set(result["exponents"]) == {"step", "rebuild", "cold"}
    assert all(
        math.isfinite(number) and number > 0 for part in ("classes", "ratios") for number in numbers(result[part])
    )
    assert all(map(math.isfinite, result["exponents"].values()))
    assert result["settings"]["shots"] == 2
    for word in (*TIMES, *bench.RATIOS, "goal", result["path"]):
        assert word in shown


def test_threads_take_turns_and_json_stands_alone(capsys: pytest.CaptureFixture[str]) -> None:
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
    assert "threads" in str(bench.tables(result))


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
    monkeypatch.setattr(bench, "_command", lambda what, settings: [sys.executable, "-c", "raise SystemExit(3)"])
    assert run(*TINY) == 2
    assert "ended with exit code 3" in capfd.readouterr().err


def test_full_caches_are_full() -> None:
    stream, method = Stream(5, 16, 8), official(3)
    state = filled(method, stream)
    assert state.css.memory.cache.filled().all()
    assert state.afv.memory.cache.filled().all()
    graphs = state.css.hyper, state.afv.hyper
    method.steps(state, stream.take(99))  # the schedule's next graph is due after these
    assert (state.css.hyper is graphs[0], state.afv.hyper is graphs[1]) == (True, True)
    method.steps(state, stream.take(1))
    assert (state.css.hyper is graphs[0], state.afv.hyper is graphs[1]) == (False, False)


def test_without_the_textbook_its_figures_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_data, "TEXTBOOK", Path("nowhere.py"))
    textbook = bench_data.Textbook()
    assert not textbook
    assert "nowhere.py is not here" in textbook.absent
    assert bench.remarks({"textbook": textbook.absent})[0].startswith("No figures of the textbook: nowhere.py")
    assert "textbook_cold/cold" not in bench.ratios({"cold": 1.0})
