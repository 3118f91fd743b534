from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from cosmic_tta import BayesMeans
from cosmic_tta.cli.app import main
from cosmic_tta.core.errors import InputError
from cosmic_tta.data.images.corrupt import Corruption
from cosmic_tta.evaluation.evaluator import run_evaluation
from cosmic_tta.features.embedded_pack import shifted_pack
from tests.support.paths import ROOT


def run(*words: str) -> int:
    with pytest.raises(SystemExit) as end:
        main(["demo", *words])
    assert isinstance(end.value.code, int)
    return end.value.code


def test_the_demo_ends_with_a_table_an_image_and_the_next_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("--images=300") == 0
    shown = capsys.readouterr().out
    for told in ("300 photographs of 10 classes under haze 4 of 5", "zero_shot", "bayes_means", "ms/sample"):
        assert told in shown
    assert "cosmic predict FOLDER --classes" in shown
    with Image.open("cosmic-demo.png") as drawn:
        assert len(drawn.getcolors(1 << 20) or []) > 5


def test_the_demo_for_machines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--images=60", "--shift=noise", "--severity=2", f"--image={tmp_path / 'a.png'}", "--json") == 0
    reports = json.loads(capsys.readouterr().out)
    assert [report["method"] for report in reports] == ["zero_shot", "tda", "dmn", "cosmic", "bayes_means"]
    assert all(report["pack"] == "mini, noise 2 of 5" for report in reports)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--seed=-1"], "seed"),
        (["--images=0"], "there are 2000 embedded photographs; asked for 0"),
        (["--images=2001"], "asked for 2001"),
        (["--shift=fog"], "unknown corruption 'fog'"),
        (["--severity=9"], "severity must be 1 to 5; given 9"),
        (["--image=/no/such/folder/a.png"], "cannot write"),
    ],
)
def test_wrong_words(words: list[str], message: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert run(f"--image={tmp_path / 'a.png'}", *words) == 2
    told = capsys.readouterr().err
    assert message in told
    assert "Traceback" not in told


def test_the_demo_needs_no_torch(tmp_path: Path) -> None:
    script = """
import sys
for name in ("torch", "transformers", "onnx", "scipy", "pyarrow", "networkx"):
    sys.modules[name] = None
from cosmic_tta import BayesMeans
from cosmic_tta.cli.app import main
main(["demo", "--images=100"])
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_shifted_pack_is_the_same_each_time() -> None:
    first, again = (shifted_pack(Corruption("noise", 3, seed=5), 50) for _ in range(2))
    np.testing.assert_array_equal(first.clip, again.clip)
    other = shifted_pack(Corruption("noise", 3, seed=6), 50)
    assert (first.clip != other.clip).any()
    with pytest.raises(InputError, match="asked for 3000"):
        shifted_pack(Corruption("noise"), 3000)


@pytest.fixture(scope="module")
def table() -> dict[str, dict[str, float]]:
    sys.path.insert(0, str(ROOT / "examples"))
    from shifts import accuracies

    return accuracies(["bayes_means"], [4, 5], 2000)


@pytest.mark.pathless
def test_the_recommended_method_gains_under_every_shift(table: dict[str, dict[str, float]]) -> None:
    gained = {shift: row["bayes_means"] - row["zero_shot"] for shift, row in table.items()}
    assert len(gained) == 12
    assert min(gained.values()) > 0, gained
    assert np.mean(list(gained.values())) >= 0.035, gained


@pytest.mark.pathless
def test_where_classes_are_uneven_it_costs_what_the_documentation_says() -> None:
    pack = shifted_pack(Corruption("haze", 4), 2000)
    for order in ("long-tailed", "dominant"):
        gains = [run_evaluation(BayesMeans(), pack, order=order, seed=seed, calibrate=False) for seed in range(5)]
        assert np.mean([run.report.metrics["gain"] for run in gains]) >= -0.025, order
