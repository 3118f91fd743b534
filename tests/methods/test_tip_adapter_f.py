from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cosmic_tta import Task, make_method
from cosmic_tta.core.errors import InputError
from cosmic_tta.training.trainer import train_to_end
from tests.support.linear_tower import LinearTower, few_shots, linear_task


def test_tip_adapter_f_serves_its_own_classes_and_features() -> None:
    task = linear_task(LinearTower())
    learned = train_to_end("tip_adapter_f", replace(task, encoder="one"), few_shots(task))
    method = make_method("tip_adapter_f", checkpoint=learned)
    method.init(task)
    with pytest.raises(InputError, match="features of 'one'"):
        method.init(replace(task, encoder="two"))
    with pytest.raises(InputError, match="its own classes"):
        method.init(Task(("a", "b", "c"), task.text))
    narrow = task.text[:, :4] / np.linalg.norm(task.text[:, :4], axis=1, keepdims=True)
    with pytest.raises(InputError, match="5 wide, the class texts 4 wide"):
        method.init(Task(task.class_names, narrow))
