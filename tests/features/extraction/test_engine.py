from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cosmic_tta.data.images.augment import RandomViews
from cosmic_tta.features.extraction.engine import LocalEngine
from cosmic_tta.features.extraction.loader import ImagePipeline
from cosmic_tta.features.extraction.plan import ExtractionPlan, chunk_size
from tests.support.small_extraction import data, run
from tests.support.tiny import TinyEncoder


@pytest.mark.parametrize(("views", "batch"), [(1, 8), (3, 8), (16, 8), (5, 64), (2, 1)])
def test_batches_are_always_full_and_of_one_size(tmp_path: Path, views: int, batch: int) -> None:
    clip, aux = TinyEncoder(), TinyEncoder(5, 12)
    run(data(tmp_path / "in", each=7), tmp_path / "out", clip=clip, aux=aux, views=RandomViews(views), batch=batch)
    assert {shape[0] for shape in clip.batches} == {batch}
    assert len({shape[0] for shape in aux.batches}) == 1
    # No more batches than the images need, a chunk at a time.
    size = chunk_size(batch, views)
    chunks = [min(size, 21 - start) for start in range(0, 21, size)]
    assert len(clip.batches) == sum(-(-images * views // batch) for images in chunks)


def test_a_chunk_is_encoded_the_same_alone_and_among_others(tmp_path: Path) -> None:
    dataset, clip = data(tmp_path / "in", each=5), TinyEncoder()
    pipeline = ImagePipeline(RandomViews(2), clip.preprocessing)
    plan = ExtractionPlan(dataset.items, pipeline, 4, 8, clip.fingerprint, None)
    together = {chunk.number: chunk for chunk in LocalEngine(clip, None, 0).chunks(plan, range(plan.chunk_count))}
    (alone,) = LocalEngine(clip, None, 0).chunks(plan, [2])
    assert sorted(together) == [0, 1, 2, 3]
    assert alone.positions == range(8, 12)
    np.testing.assert_array_equal(alone.features["clip"], together[2].features["clip"])
    assert together[3].features["clip"].shape == (3, 2, 8)  # blank rows are not kept
