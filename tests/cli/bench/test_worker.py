from __future__ import annotations

import json
import sys

import pytest

from cosmic_tta.cli.bench import runner, worker
from cosmic_tta.cli.bench.workload import BenchSettings, FeatureStream, Textbook

SETTINGS = BenchSettings((4,), ("tda",), shots=2, views=1, dim=16, aux_dim=8, samples=10)


def test_a_cold_stream_is_timed_with_and_without_the_textbook() -> None:
    stream = FeatureStream(4, 16, 8)
    alone = worker.cold(SETTINGS, stream, None)
    assert set(alone) == {"cold", "cold_rebuilds"}
    assert 0 < alone["cold_rebuilds"] <= worker.COLD_SAMPLES
    textbook = Textbook()
    if textbook:
        assert set(worker.cold(SETTINGS, stream, textbook)) == {"cold", "cold_rebuilds", "textbook_cold"}


def test_a_block_and_single_steps_are_timed_on_equal_samples() -> None:
    figures = worker.BenchFigures(SETTINGS, 4, Textbook()).blocks()
    assert set(figures) == {"block", "one_by_one"}
    assert all(time > 0 for time in figures.values())


def test_a_large_graph_is_measured_with_its_peak_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "LARGE_CLASSES", 12)
    found = worker.large(SETTINGS)
    assert (found["classes"], found["nodes"]) == (12, 24)
    assert found["rebuild_s"] > 0
    assert found["peak_mb"] > 10


def test_the_process_prints_json_for_what_its_first_argument_names(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(worker, "LARGE_CLASSES", 12)
    monkeypatch.setattr(sys, "argv", ["worker", "large", json.dumps(vars(SETTINGS))])
    worker.main()
    assert json.loads(capsys.readouterr().out)["nodes"] == 24


@pytest.mark.torch
def test_a_method_that_learns_prompts_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    for name, value in (("LEARNING_CLASSES", 7), ("LEARNING_VIEWS", 9), ("LEARNING_WIDTH", 64), ("LEARNING_LAYERS", 1)):
        monkeypatch.setattr(worker, name, value)
    found = worker.learning(BenchSettings((4,), ("tpt",), 2, 1, 16, 8, 10))
    assert (found["classes"], found["views"]) == (7, 9)
    assert found["step_s"] > 0
    assert found["peak_mb"] > 10
    monkeypatch.setattr(runner, "_run_worker", lambda what, settings: found)
    settings = runner.parse_settings("4", "tpt", shots=2, views=1, dim=16, aux_dim=8, samples=10)
    result = runner.measure(settings, threads=True, large=False)
    ((title, columns, rows),) = runner.tables(result)
    assert title.startswith("Methods that learn prompts: 9 views, 7 classes")
    assert "peak memory, MB" in columns
    assert rows[0][0] == "tpt"
