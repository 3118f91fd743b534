from __future__ import annotations

import numpy as np

from cosmic_tta.data.datasets.embedded import photographs
from cosmic_tta.data.images.decode import open_image
from cosmic_tta.encoders import diffusion


def test_the_embedded_model_varies_an_image() -> None:
    photograph = open_image(photographs().items[0].read())
    generate = diffusion.load(diffusion.MINI)
    views = [np.asarray(view, np.float32) for view in generate(photograph, 3, 7)]
    again = [np.asarray(view, np.float32) for view in generate(photograph, 3, 7)]
    plain = np.asarray(photograph, np.float32)
    assert all((one == two).all() for one, two in zip(views, again, strict=True))
    assert all(0 < np.abs(view - plain).mean() < 20 for view in views)  # of 255; a white noise of that size has 60
    assert (views[0] != views[1]).any()
    assert generate(photograph.resize((90, 40)), 1, 0)[0].size == photograph.size
