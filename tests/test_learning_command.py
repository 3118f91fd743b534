"""`cosmic train`, then `cosmic eval`; views drawn beforehand; what is measured of methods that learn."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image
from small_extraction import data, run
from tiny import TinyEncoder, picture

from cosmic_tta import bench, bench_worker, checkpoints
from cosmic_tta.bench_data import Settings
from cosmic_tta.classifier import Classifier
from cosmic_tta.cli import main
from cosmic_tta.corruptions import Corruption
from cosmic_tta.datasets.embedded import photographs
from cosmic_tta.demo import shifted_pack
from cosmic_tta.domains import part
from cosmic_tta.encoders import diffusion
from cosmic_tta.errors import EncoderError, InputError, PictureError, UnknownNameError
from cosmic_tta.experiments.embedded import embedded_drawn, embedded_views
from cosmic_tta.generation import draw_views
from cosmic_tta.methods.difftpt import alike
from cosmic_tta.packs import FeaturePack
from cosmic_tta.pictures import open_picture
from cosmic_tta.views import DrawnViews, Views


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
        part(whole, places, name).write(folder / name)
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
        learned = checkpoints.read(file)
        assert (learned.told["shots"], learned.told["seed"], learned.told["epochs"]) == (2, 1, 2)
        assert json.loads(told.read_text())["figures"] == learned.told["figures"]
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
        (["bench", "--methods", "coop"], "coop is trained before it is timed"),
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
from cosmic_tta.cli import main
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
    answers = classify(picture(3))
    assert {answer["label"] for answer in answers} == {"cat", "dog", "ship"}


def draw(image: Image.Image, count: int, seed: int) -> list[Image.Image]:
    """Stand in for a diffusion model: pictures of the seed."""
    return [picture(seed % 1000 + number, image.size) for number in range(count)]


def test_drawn_views_lie_behind_the_others_in_a_pack(tmp_path: Path) -> None:
    dataset = data(tmp_path / "in", each=2)
    folder = tmp_path / "drawn"
    assert draw_views(dataset, draw, folder, 3) == 6
    assert draw_views(dataset, draw, folder, 3) == 0  # they are there
    drawn = DrawnViews.found(str(folder), [item.key for item in dataset.items])
    run(dataset, tmp_path / "pack", views=Views(2), drawn=drawn)
    pack = FeaturePack.open(tmp_path / "pack")
    assert pack.clip.shape == (6, 5, 8)
    assert pack.made["drawn views"] == {"folder": str(folder), "count": 3}
    clip, item = TinyEncoder(), dataset.items[4]
    last = Image.open(drawn.files(item.key)[2])
    np.testing.assert_allclose(pack.clip[4, 4], clip.encode(clip.preprocessing.pixels(last)[None])[0], atol=1e-6)
    assert drawn.place(item.key) == folder / Path(item.key).with_suffix("")


def test_pictures_without_their_views_are_told(tmp_path: Path) -> None:
    dataset = data(tmp_path / "in", each=2)
    keys = [item.key for item in dataset.items]
    with pytest.raises(InputError, match="holds no views; see `cosmic draw-views`"):
        DrawnViews.found(str(tmp_path / "drawn"), keys)
    draw_views(dataset, draw, tmp_path / "drawn", 3)
    views = DrawnViews.found(str(tmp_path / "drawn"), keys)
    views.files(keys[3])[0].write_bytes(b"no picture")
    done = run(dataset, tmp_path / "pack", views=Views(1), drawn=views)
    assert list(done.failed) == [keys[3]]
    views.files(keys[3])[0].unlink()
    with pytest.raises(InputError, match="holds 2 views, the first picture has 3"):
        DrawnViews.found(str(tmp_path / "drawn"), keys)
    with pytest.raises(PictureError, match="drew 1 views"):
        draw_views(dataset, lambda *_: [picture(0)], tmp_path / "others", 2)


@pytest.mark.torch
def test_a_pipeline_of_diffusers_draws_from_a_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    asked: list[dict[str, Any]] = []

    class Pipeline:
        @classmethod
        def from_pretrained(cls, name: str, **settings: Any) -> Pipeline:
            if name == "absent":
                raise OSError("no such model")
            return cls()

        def to(self, _: str) -> Pipeline:
            return self

        def set_progress_bar_config(self, **_: Any) -> None:
            pass

        def __call__(self, **words: Any) -> Any:
            asked.append(words)
            return SimpleNamespace(images=[words["image"]] * words["num_images_per_prompt"])

    stand_in: Any = ModuleType("diffusers")
    stand_in.DiffusionPipeline = Pipeline
    monkeypatch.setitem(sys.modules, "diffusers", stand_in)
    monkeypatch.setattr(diffusion, "find_spec", lambda _: object())
    pen = diffusion.load("some/model", "cpu")
    assert len(pen(picture(0), 4, 7)) == 4
    assert asked[0]["generator"].initial_seed() == 7
    with pytest.raises(EncoderError, match="cannot load 'absent'"):
        diffusion.load("absent", "cpu")
    monkeypatch.setattr(diffusion, "find_spec", lambda _: None)
    with pytest.raises(EncoderError, match=r"pip install 'cosmic-tta\[diffusion\]'"):
        diffusion.load("some/model")


def test_the_embedded_drawer_varies_a_picture_and_needs_no_torch() -> None:
    photograph = open_picture(photographs().items[0].read())
    pen = diffusion.load(diffusion.MINI)
    views = [np.asarray(view, np.float32) for view in pen(photograph, 3, 7)]
    again = [np.asarray(view, np.float32) for view in pen(photograph, 3, 7)]
    plain = np.asarray(photograph, np.float32)
    assert all((one == two).all() for one, two in zip(views, again, strict=True))
    assert all(0 < np.abs(view - plain).mean() < 20 for view in views)  # of 255; a white noise of that size has 60
    assert (views[0] != views[1]).any()
    assert pen(photograph.resize((90, 40)), 1, 0)[0].size == photograph.size
    with pytest.raises(UnknownNameError, match="did you mean 'mini:drawer'"):
        diffusion.load("mini:drawr")


def test_the_stream_of_the_paper_s_tables_has_drawn_views() -> None:
    pack = embedded_drawn(3, 2)
    assert pack.clip.shape[:2] == (3, 18)
    assert (pack.clip[:, :16] == embedded_views(3).clip).all()
    near = np.einsum("nvd,nd->nv", pack.clip, pack.clip[:, 0])
    assert near[:, 16:].min() > 0.5  # variations of the picture, not of another
    assert near[:, 16:].max() < 1


def test_of_drawn_views_those_like_the_picture_stay() -> None:
    views = np.eye(6, dtype=np.float32)
    views[:, 0] = [1, 0.1, 0.9, 0.2, 0.8, 0.3]
    assert alike(views, 4, 0.5).tolist() == [0, 1, 2, 4]
    assert alike(views, 99, 0.4).tolist() == [0, 2, 4]
    assert alike(views[:1], 0, 0.8).tolist() == [0]


@pytest.mark.torch
def test_time_and_memory_of_a_step_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    for name, value in (("LEARNING_CLASSES", 7), ("LEARNING_VIEWS", 9), ("LEARNING_WIDTH", 64), ("LEARNING_LAYERS", 1)):
        monkeypatch.setattr(bench_worker, name, value)
    found = bench_worker.learning(Settings((4,), ("tpt",), 2, 1, 16, 8, 10))
    assert (found["classes"], found["views"]) == (7, 9)
    assert found["step_s"] > 0
    assert found["peak_mb"] > 10
    monkeypatch.setattr(bench, "_answer", lambda what, settings: found)
    result = bench.measure(bench.checked("4", "tpt", shots=2, views=1, dim=16, aux_dim=8, samples=10),
                           threads=True, large=False)  # fmt: skip
    ((title, columns, rows),) = bench.tables(result)
    assert title.startswith("Methods that learn: 9 views, 7 classes")
    assert "peak memory, MB" in columns
    assert rows[0][0] == "tpt"
