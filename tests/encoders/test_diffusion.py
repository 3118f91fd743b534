from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from cosmic_tta.core.errors import EncoderError, UnknownNameError
from cosmic_tta.encoders import diffusion
from tests.support.tiny import image


@pytest.mark.torch
def test_a_pipeline_of_diffusers_generates_from_a_seed(monkeypatch: pytest.MonkeyPatch) -> None:
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
    generate = diffusion.load("some/model", "cpu")
    assert len(generate(image(0), 4, 7)) == 4
    assert asked[0]["generator"].initial_seed() == 7
    with pytest.raises(EncoderError, match="cannot load 'absent'"):
        diffusion.load("absent", "cpu")
    monkeypatch.setattr(diffusion, "find_spec", lambda _: None)
    with pytest.raises(EncoderError, match=r"pip install 'cosmic-tta\[diffusion\]'"):
        diffusion.load("some/model")


def test_an_unknown_embedded_model_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'mini:diffusion'"):
        diffusion.load("mini:diffusoin")
