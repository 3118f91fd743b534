"""`cosmic train`, then `cosmic eval`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from cosmic_tta.classifier import Classifier
from cosmic_tta.cli.app import main
from cosmic_tta.data.images.corrupt import Corruption
from cosmic_tta.features.embedded_pack import shifted_pack
from cosmic_tta.features.pack_ops import subset
from cosmic_tta.methods.prompt_tuning.difftpt import similar_views
from cosmic_tta.reporting.paper.embedded_packs import embedded_views, embedded_with_generated_views
from cosmic_tta.training import checkpoint_file
from tests.support.tiny import image


def command(*words: str) -> int:
    with pytest.raises(SystemExit) as stop:
        main(words)
    return int(stop.value.code or 0)


@pytest.fixture(scope="module")
def packs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A stream of embedded photographs, and others to learn from."""
    folder = tmp_path_factory.mktemp("packs")
    whole = shifted_pack(Corruption("pixelation", 4), 160)
    assert whole.labels is not None
    for name, places in (("stream", slice(0, 40)), ("support", slice(40, 160))):
        subset(whole, places, name).write(folder / name)
    return folder


@pytest.mark.torch
def test_trained_then_evaluated(packs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch")
    words = ["--shots", "2", "--epochs", "2", "--seed", "1"]
    given = []
    for method in ("coop", "cocoop", "tip_adapter_f"):
        file = tmp_path / f"{method}.safetensors"
        told = tmp_path / "told.json"
        assert command("train", method, str(packs / "support"), "--out", str(file), *words, "--json", str(told)) == 0
        learned = checkpoint_file.read(file)
        assert (learned.metadata["shots"], learned.metadata["seed"], learned.metadata["epochs"]) == (2, 1, 2)
        assert json.loads(told.read_text())["figures"] == learned.metadata["figures"]
        given += ["--checkpoint", str(file)]
    assert not list(tmp_path.glob(".*"))  # nothing unfinished is left
    assert f"--method {method} --checkpoint {file}" in capsys.readouterr().out.replace("\n", "")
    file = tmp_path / "out.json"
    methods = "coop,cocoop,tip_adapter_f,tpt"
    assert command("eval", str(packs / "stream"), "--method", methods, *given, "--json", str(file)) == 0
    reports = json.loads(file.read_text())
    assert [report["method"] for report in reports] == methods.split(",")
    assert all(report["n"] == 40 and report["ms_per_sample"] > 0 for report in reports)


@pytest.mark.torch
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["train", "coup", "{}/support", "--out", "{}/x.safetensors"], "did you mean 'coop'?"),
        (["train", "coop", "{}/support", "--out", "{}/x.pt"], "must end in .safetensors"),
        (["train", "coop", "{}/support", "--out", "{}/x.safetensors", "--shots", "99"], "99 shots were asked for"),
        (["train", "coop", "{}/support", "--out", "{}/x.safetensors", "--tokens", "12"], "is too long"),
        (["train", "coop", "{}/support", "--out", "{}/x.safetensors", "--tower", "onnx:x"], "exported graph"),
        (["eval", "{}/stream", "--method", "coop"], "cosmic train coop"),
        (["eval", "{}/stream", "--method", "tda", "--tower", "mini:clip"], "tda would not use it"),
        (["eval", "{}/stream", "--method", "tpt", "--set", "tokens=12"], "is too long"),
        (["eval", "{}/stream", "--method", "tpt", "--tower", "minni:clip"], "did you mean 'mini'?"),
        (["bench", "--methods", "coop"], "coop needs a checkpoint"),
    ],
)
def test_bad_words_end_before_any_work(
    packs: Path, words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch")
    assert command(*(word.replace("{}", str(packs)) for word in words)) == 2
    assert message in " ".join(capsys.readouterr().err.split())
    assert not list(packs.glob("*.safetensors"))


def test_asked_for_without_torch_the_install_command_is_told(packs: Path) -> None:
    script = f"""
import sys
sys.modules["torch"] = None
from cosmic_tta.cli.app import main
main(["eval", {str(packs / "stream")!r}, "--method", "tpt"])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "pip install 'cosmic-tta[torch]'" in done.stderr


@pytest.mark.torch
def test_a_classifier_learns_prompts_too(packs: Path) -> None:
    pytest.importorskip("torch")
    assert (packs / "stream").is_dir()
    classify = Classifier(["cat", "dog", "ship"], aux=None, method="tpt", views=8)
    answers = classify(image(3))
    assert {answer["label"] for answer in answers} == {"cat", "dog", "ship"}


def test_the_stream_of_the_paper_s_tables_has_drawn_views() -> None:
    pack = embedded_with_generated_views(3, 2)
    assert pack.clip.shape[:2] == (3, 18)
    assert (pack.clip[:, :16] == embedded_views(3).clip).all()
    near = np.einsum("nvd,nd->nv", pack.clip, pack.clip[:, 0])
    assert near[:, 16:].min() > 0.5  # variations of the image, not of another
    assert near[:, 16:].max() < 1


def test_of_drawn_views_those_like_the_image_stay() -> None:
    views = np.eye(6, dtype=np.float32)
    views[:, 0] = [1, 0.1, 0.9, 0.2, 0.8, 0.3]
    assert similar_views(views, 4, 0.5).tolist() == [0, 1, 2, 4]
    assert similar_views(views, 99, 0.4).tolist() == [0, 2, 4]
    assert similar_views(views[:1], 0, 0.8).tolist() == [0]
