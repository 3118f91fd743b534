from __future__ import annotations

import pickle
from collections import Counter

import numpy as np

from cosmic_tta.data.datasets.embedded import photographs
from cosmic_tta.data.images.decode import open_image


def test_two_thousand_photographs_in_ten_classes() -> None:
    data = photographs()
    assert (data.name, data.split, len(data), len(data.class_names)) == ("mini", "test", 2000, 10)
    assert Counter(item.label for item in data.items) == dict.fromkeys(range(10), 200)
    assert len({item.key for item in data.items}) == 2000


def test_a_photograph_is_read_alone_in_any_process() -> None:
    items = photographs().items
    images = [np.asarray(open_image(pickle.loads(pickle.dumps(item)).read())) for item in items[::400]]
    assert {image.shape for image in images} == {(32, 32, 3)}
    assert len({image.tobytes() for image in images}) == len(images)
