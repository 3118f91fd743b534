from __future__ import annotations

from typing import Any

import numpy as np

from cosmic_tta import DiffTpt, Method, Sample, Task, Tpt
from cosmic_tta.core.arrays import Array, unit
from cosmic_tta.methods.prompt_tuning.difftpt import similar_views
from tests.support.linear_tower import LinearTower, linear_task


def views(count: int, dim: int) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    return unit(np.random.default_rng(0).standard_normal((count, dim)).astype(np.float32))


def predicted(method: Method[Any], task: Task, sample: Sample) -> Array:
    return method.step(method.init(task), sample).scores


def test_generated_views_unlike_the_image_are_left_out() -> None:
    rows = views(9, 5)
    kept = similar_views(rows, 4, 0.5)
    assert kept[:5].tolist() == [0, 1, 2, 3, 4]
    near = rows @ rows[0]
    left_out = sorted(set(range(9)) - set(kept.tolist()))
    assert len(left_out) == 2
    assert near[kept[5:]].min() >= near[left_out].max()


def test_if_all_views_are_kept_it_is_tpt() -> None:
    task = linear_task(LinearTower())
    sample = Sample(views(8, task.dim))
    every_view = predicted(DiffTpt(generated=4, alike=1.0, confident=0.5, steps_each=2), task, sample)
    np.testing.assert_array_equal(every_view, predicted(Tpt(confident=0.5, steps_each=2), task, sample))
    fewer = predicted(DiffTpt(generated=4, alike=0.25, confident=0.5, steps_each=2), task, sample)
    assert not np.array_equal(fewer, every_view)
