from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from cosmic_tta.cli.app import main
from cosmic_tta.features.pack import FeaturePack, check_pack
from cosmic_tta.features.synthetic import superclass_pack
from tests.support.tiny import class_folders

pytestmark = pytest.mark.torch
CLASSES = ("grey_cat", "owl", "small dog")


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tests.support.tiny_encoders import save_clip, save_dinov2

    folder = tmp_path_factory.mktemp("models")
    save_clip(folder / "clip")
    save_dinov2(folder / "dino")
    return folder


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    return class_folders(tmp_path / "photos", CLASSES, 4)


def run(models: Path, source: Path | str, out: Path, *more: str) -> None:
    encoders = [f"--clip=hf:{models / 'clip'}", f"--aux=hf:{models / 'dino'}"]
    main(["extract", str(source), *encoders, "--out", str(out), "--views=3", "--workers=0", *more])


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    with pytest.raises(SystemExit) as end:
        main(list(words))
    assert end.value.code == 2
    told = " ".join(capsys.readouterr().err.split())
    assert "Traceback" not in told
    return told


def ended(arguments: list[str]) -> int:
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert isinstance(end.value.code, int)
    return end.value.code


def test_a_folder_becomes_a_pack_that_is_evaluated(
    models: Path, photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (photos / "owl" / "spoiled.jpg").write_bytes(b"")
    out = tmp_path / "pack"
    with pytest.raises(SystemExit) as end:
        run(models, photos, out, f"--json={tmp_path / 'told.json'}")
    assert end.value.code == 0
    shown = capsys.readouterr()
    assert "photos: 13 images of 3 classes, 3 views each." in shown.out
    assert "images per second; the encoders waited" in shown.out
    assert f"Next: cosmic eval {out}" in shown.out
    assert "spoiled.jpg: is empty" in shown.err
    told = json.loads((tmp_path / "told.json").read_text())
    assert (told["images"], list(told["failed"])) == (12, ["owl/spoiled.jpg"])

    pack = FeaturePack.open(out)
    assert not list(check_pack(out))
    assert pack.class_names == ("grey cat", "owl", "small dog")
    assert pack.clip.shape == (12, 3, 48)
    assert pack.aux is not None
    assert pack.prompts == "a photo of a {}."
    assert ended(["eval", str(out), "--method=cosmic,bayes_means"]) == 0


def test_words_for_the_classes(models: Path, photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "more.json").write_text(json.dumps({"owl": ["A bird of the night."]}))
    template = "a drawing of a {}."
    for out, more in (
        ("plain", []),
        ("drawn", ["--templates", template]),
        ("both", ["--templates", template, "--templates=plain"]),
        ("described", ["--descriptions", str(tmp_path / "more.json")]),
    ):
        with pytest.raises(SystemExit) as end:
            run(models, photos, tmp_path / out, *more)
        assert end.value.code == 0
    assert "2 of 3 classes have no description" in capsys.readouterr().err
    texts = {name: FeaturePack.open(tmp_path / name).text for name in ("plain", "drawn", "both", "described")}
    mean = texts["plain"] + texts["drawn"]
    np.testing.assert_allclose(texts["both"], mean / np.linalg.norm(mean, axis=1, keepdims=True), atol=1e-5)
    np.testing.assert_allclose(texts["described"][0], texts["plain"][0], atol=1e-6)
    assert abs(texts["described"][1] - texts["plain"][1]).max() > 1e-3
    assert FeaturePack.open(tmp_path / "both").prompts == f"{template} | a photo of a {{}}."


def test_few_shots_a_limit_and_half_precision(models: Path, photos: Path, tmp_path: Path) -> None:
    for name, more in (("few", ["--shots=2", "--seed=3"]), ("first", ["--limit=5", "--store=float16", "--mix"])):
        with pytest.raises(SystemExit) as end:
            run(models, photos, tmp_path / name, *more)
        assert end.value.code == 0
    few, first = FeaturePack.open(tmp_path / "few"), FeaturePack.open(tmp_path / "first")
    assert few.labels is not None
    assert few.labels.tolist() == [0, 0, 1, 1, 2, 2]
    assert len(first) == 5
    assert first.clip.dtype == np.float16
    assert first.provenance["views"]["mix"] is True


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--views=0"], "views must be 1 to 512; given 0"),
        (["--batch=some"], "--batch takes auto or a whole number from 1 on; given 'some'"),
        (["--workers=-1"], "--workers takes auto or a whole number from 0 on; given '-1'"),
        (["--max-pixels=0"], "--max-pixels must be above 0"),
        (["--max-pixels=nan"], "--max-pixels must be above 0"),
        (["--max-pixels=inf"], "--max-pixels must be above 0"),
        (["--out=."], "--out must name a folder to create; given '.'"),
        (["--out=/"], "--out must name a folder to create; given '/'"),
        (["--limit=0"], "--limit must be at least 1"),
        (["--templates=plane"], "unknown set of templates 'plane': did you mean 'plain'?"),
        (["--templates", "a photo"], "unknown set of templates 'a photo'"),
        (["--descriptions=none.json"], "descriptions cannot be read from 'none.json'"),
        (["--store=float8"], "float32 or float16; given 'float8'"),
        (["--seed=-1"], "seed must not be negative"),
        (["--json=no/such/folder/f.json"], "cannot write"),
        (["--device=tpu"], "unknown device 'tpu'"),
    ],
)
def test_wrong_words_end_with_one_sentence(
    words: list[str], message: str, models: Path, photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = refused(
        capsys, "extract", str(photos), f"--clip=hf:{models / 'clip'}", "--out", str(tmp_path / "out"), *words
    )
    assert message in told
    assert not (tmp_path / "out").exists()


def test_wrong_sources_and_encoders(
    models: Path, photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    clip, out = f"--clip=hf:{models / 'clip'}", f"--out={tmp_path / 'out'}"
    (tmp_path / "empty").mkdir()
    assert "no image" in refused(capsys, "extract", str(tmp_path / "empty"), clip, out)
    assert "nowhere" in refused(capsys, "extract", str(tmp_path / "nowhere"), clip, out)
    dino = f"--clip=hf:{models / 'dino'}"
    assert "has no text tower" in refused(capsys, "extract", str(photos), dino, out)
    assert "unknown family of encoders" in refused(capsys, "extract", str(photos), "--clip=hff:x", out)
    (tmp_path / "out").mkdir()
    assert "out' exists already; remove it" in refused(capsys, "extract", str(photos), clip, out)
    superclass_pack(images=20).write(tmp_path / "whole")
    told = refused(capsys, "extract", str(photos), clip, f"--out={tmp_path / 'whole'}")
    assert "whole' exists already and is complete; remove it" in told


def test_an_interrupt_says_how_to_go_on(
    models: Path, photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from cosmic_tta.features.extraction import engine

    real, left = engine.encode_chunk, [1]

    def interrupted(*given: object) -> object:
        if not left:
            raise KeyboardInterrupt
        left.pop()
        return real(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(engine, "encode_chunk", interrupted)
    with pytest.raises(SystemExit) as end:
        run(models, photos, tmp_path / "out", "--batch=8")
    assert end.value.code == 130
    assert "run the same command to continue" in " ".join(capsys.readouterr().err.split())
    monkeypatch.undo()
    with pytest.raises(SystemExit) as end:
        run(models, photos, tmp_path / "out", "--batch=8")
    assert end.value.code == 0
    assert "2 images had been encoded before" in capsys.readouterr().out
