from __future__ import annotations

from dataclasses import replace

import pytest

from cosmic_tta.core.errors import EncoderError
from cosmic_tta.features import text_towers
from cosmic_tta.features.pack import FeaturePack
from cosmic_tta.features.synthetic import superclass_pack
from cosmic_tta.features.text_towers import attach_task_tower, attach_tower, needs_prompt_tower
from cosmic_tta.methods.prompt_tuning.tpt import Tpt
from cosmic_tta.methods.zero_shot import ZeroShot


def test_only_methods_that_learn_prompts_need_a_tower() -> None:
    assert needs_prompt_tower(Tpt)
    assert needs_prompt_tower(Tpt())
    assert not needs_prompt_tower(ZeroShot())


def test_an_unknown_encoder_names_the_pack_and_the_option(pack: FeaturePack) -> None:
    with pytest.raises(EncoderError, match=r"text tower of 'generated-20' \(generated\): unknown family .*--tower"):
        attach_tower(pack)
    with pytest.raises(EncoderError, match="no encoder is named"):
        attach_tower(replace(pack, clip_model=""))
    with pytest.raises(EncoderError, match="an exported graph has no gradients") as error:
        attach_tower(pack, "onnx:folder")
    assert "--tower" not in str(error.value)  # the option was given


@pytest.mark.torch
def test_towers_are_loaded_once_for_the_same_classes() -> None:
    pytest.importorskip("torch")
    pytest.importorskip("onnx")
    text_towers._tower.cache_clear()
    pack = replace(superclass_pack(images=4, superclasses=1, members=2), class_names=("cat", "dog"))
    tower = attach_tower(pack, "mini:clip").tower
    assert tower is not None
    assert tower.class_names == ("cat", "dog")
    assert attach_task_tower(pack.task(), "mini:clip").tower is tower
    assert text_towers._tower.cache_info().misses == 1
