from __future__ import annotations

import numpy as np

from cosmic_tta.data.images.corrupt import Corruption
from cosmic_tta.features.embedded_pack import shifted_pack
from cosmic_tta.features.pack import FeaturePack
from cosmic_tta.features.source_images import image_of_row


def test_images_are_those_that_were_encoded() -> None:
    shift = Corruption("haze", 4)
    pack = shifted_pack(shift, 3)
    image = image_of_row(pack, 2)
    assert image is not None
    assert image.shape == (32, 32, 3)
    plain = FeaturePack("a", pack.class_names, pack.clip, pack.text, keys=pack.keys, source=pack.source)
    original = image_of_row(plain, 2)
    assert original is not None
    assert not np.array_equal(image, original)
    assert image_of_row(FeaturePack("a", pack.class_names, pack.clip, pack.text, keys=pack.keys), 2) is None
