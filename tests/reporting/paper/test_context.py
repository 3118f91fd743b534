from __future__ import annotations

from dataclasses import replace

import pytest

from cosmic_tta.features.pack import FeaturePack
from cosmic_tta.reporting.paper import ExperimentContext
from cosmic_tta.reporting.paper import embedded_packs as embedded_packs_module
from cosmic_tta.reporting.paper.context import generated_views


def test_without_packs_the_embedded_one_is_made_once(monkeypatch: pytest.MonkeyPatch, small: FeaturePack) -> None:
    calls = []

    def encode(shift: object, images: int) -> FeaturePack:
        calls.append(images)
        return small

    monkeypatch.setattr(embedded_packs_module, "shifted_pack", encode)
    embedded_packs_module.embedded_pack.cache_clear()
    context = ExperimentContext(seeds=(0,))
    assert context.evaluated_packs == context.evaluated_packs == (small,)
    assert calls == [2000]
    embedded_packs_module.embedded_pack.cache_clear()


def test_the_same_run_is_computed_once(small: FeaturePack) -> None:
    context = ExperimentContext((small,), seeds=(0,))
    run = context.run("tda", small)
    assert context.run("tda", small) is run
    assert context.run("tda", small, 1) is not run
    assert context.run("tda", small, shots=2) is not run
    assert context.run("tda", small, aux="none") is not run


def test_progress_names_the_method_and_the_pack(small: FeaturePack) -> None:
    seen: list[tuple[int, int, str]] = []
    context = ExperimentContext((small,), seeds=(3,), limit=4, on_progress=lambda *step: seen.append(step))
    context.run("tda", small, shots=2)
    assert seen[-1] == (4, 4, f"tda shots=2 on {small.name}, seed 3")


def test_packs_without_labels_are_named(small: FeaturePack) -> None:
    unlabelled = replace(small, name="blind", labels=None)
    packs, missing = ExperimentContext((small, unlabelled)).labelled_packs()
    assert packs == [small]
    assert missing == ["blind: no labels, so no accuracy."]


def test_a_method_that_cannot_run_has_its_reason(small: FeaturePack) -> None:
    context = ExperimentContext((small,), excluded=("dmn",))
    assert context.why_not_runnable("cosmic@paper", small) == ""
    assert context.why_not_runnable("dmn", small) == "left out"
    assert "--support PACK" in context.why_not_runnable("tip_adapter", small)
    one_view = replace(small, clip=small.clip[:, :1])
    assert "cosmic extract --views" in context.why_not_runnable("tpt", one_view)
    assert "diffusion model" in context.why_not_runnable("difftpt", small)
    assert generated_views(small) == 0
