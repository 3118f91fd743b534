from __future__ import annotations

import numpy as np
import pytest

from cosmic_tta.core.errors import InputError
from cosmic_tta.data.images.corrupt import Corruption
from cosmic_tta.features.embedded_pack import shifted_pack


def test_photographs_are_encoded_under_a_shift() -> None:
    steps: list[tuple[int, int, str]] = []
    mild, strong = Corruption("noise", 1), Corruption("noise", 5)
    pack = shifted_pack(mild, 120, lambda *step: steps.append(step))
    assert steps == [(100, 120, ""), (120, 120, "")]
    assert (pack.clip_model, pack.aux_model, pack.clip.shape[:2]) == ("mini:clip", "mini:dino", (120, 1))
    assert pack.provenance == {"shift": {"kind": "noise", "severity": 1, "seed": 0}}
    assert pack.keys[:2] == ("0000.png", "0001.png")
    assert not np.allclose(pack.clip[:5], shifted_pack(strong, 5).clip)


def test_more_photographs_than_there_are_are_refused() -> None:
    for count in (0, 2001):
        with pytest.raises(InputError, match=f"there are 2000 embedded photographs; asked for {count}"):
            shifted_pack(Corruption("haze"), count)
