from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

EXPORTED = ("clip", "siglip", "dinov2", "clip-resnet")


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The folders of small models that transformers loads, by kind."""
    tiny: Any = pytest.importorskip("tests.support.tiny_encoders")
    root = tmp_path_factory.mktemp("models")
    return {name: save(root / name) for name, save in tiny.HF.items()}


@pytest.fixture(scope="session")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Export a small model to ONNX when it is first asked for: name → (spec, folder, report)."""
    tiny: Any = pytest.importorskip("tests.support.tiny_encoders")
    export: Any = pytest.importorskip("cosmic_tta.encoders.onnx_export")
    pytest.importorskip("onnxscript")
    models = {
        "clip": ("hf", tiny.save_clip),
        "siglip": ("hf", tiny.save_siglip),
        "dinov2": ("hf", tiny.save_dinov2),
        "clip-resnet": ("clip-resnet", lambda folder: tiny.save_clip_resnet(folder, tiny.TINIEST)),
    }
    root = tmp_path_factory.mktemp("onnx")
    made: dict[str, tuple[str, Path, Any]] = {}

    def get(name: str) -> tuple[str, Path, Any]:
        if name not in made:
            family, save = models[name]
            spec = f"{family}:{save(root / name)}"
            made[name] = (spec, root / f"{name}.onnx", export.export_onnx(spec, root / f"{name}.onnx"))
        return made[name]

    return get
