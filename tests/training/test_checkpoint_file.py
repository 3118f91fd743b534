from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file

from cosmic_tta.core.errors import InputError, SnapshotError
from cosmic_tta.features.pack import FeaturePack
from cosmic_tta.methods.components.training import Checkpoint
from cosmic_tta.training import checkpoint_file
from cosmic_tta.training.trainer import TrainingConfig, train_to_end
from tests.support.linear_tower import LinearTower, few_shots, linear_task


def test_a_checkpoint_comes_back_as_it_was(tmp_path: Path) -> None:
    task = linear_task(LinearTower())
    learned = train_to_end("coop", task, few_shots(task), TrainingConfig(epochs=2))
    file = tmp_path / "coop.safetensors"
    checkpoint_file.write(file, learned)
    again = checkpoint_file.read(file)
    assert (again.method, again.metadata, again.digest) == (learned.method, learned.metadata, learned.digest)
    assert {"tower", "tokens", "template", "seed", "figures", "shots"} <= set(again.metadata)
    content = bytearray(file.read_bytes())
    content[-3] ^= 1
    file.write_bytes(content)
    with pytest.raises(SnapshotError, match="checksum"):
        checkpoint_file.read(file)
    file.write_bytes(b"nothing")
    with pytest.raises(SnapshotError, match="no checkpoint of cosmic train"):
        checkpoint_file.read(file)
    with pytest.raises(SnapshotError, match="make one: cosmic train"):
        checkpoint_file.read(tmp_path / "absent.safetensors")


def rewritten(file: Path, **changes: object) -> None:
    """Write a checkpoint's header again with changes; the arrays stay."""
    with safe_open(file, framework="numpy") as stored:
        arrays = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118
        header = json.loads(stored.metadata()[checkpoint_file.KEY])
    save_file(arrays, file, {checkpoint_file.KEY: json.dumps({**header, **changes})})


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"format": 1}, "has the format 1; this version reads format 2. Train again"),
        ({"format": None}, "has the format None"),
        ({"metadata": 3}, "no checkpoint of cosmic train, or it is damaged"),
        ({"method": "tda"}, "is a checkpoint of 'tda'; this version trains cocoop, coop, tip_adapter_f"),
        ({"digest": "0"}, "do not match their checksum"),
    ],
)
def test_a_file_of_another_format_or_method_is_refused(changes: dict[str, object], said: str, tmp_path: Path) -> None:
    file = tmp_path / "coop.safetensors"
    checkpoint_file.write(file, Checkpoint("coop", {"context": np.zeros((2, 3), np.float32)}, {}))
    rewritten(file, **changes)
    with pytest.raises(SnapshotError, match=said):
        checkpoint_file.read(file)


def test_a_checkpoint_goes_to_its_method_and_not_to_its_own_shots(tmp_path: Path, pack: FeaturePack) -> None:
    file = tmp_path / "coop.safetensors"
    checkpoint = Checkpoint("coop", {}, {"drawn_from": pack.support().digest})
    checkpoint_file.write(file, checkpoint)
    assert checkpoint_file.match_methods([file], ["tda", "coop"]) == {"coop": str(file)}
    with pytest.raises(InputError, match="trained for coop, which is not among tda"):
        checkpoint_file.match_methods([file], ["tda"])
    with pytest.raises(InputError, match="two checkpoints are of coop"):
        checkpoint_file.match_methods([file, file], ["coop"])
    with pytest.raises(InputError, match="trained on labels of the pack"):
        checkpoint_file.refuse_own_shots(checkpoint, pack)
    checkpoint_file.refuse_own_shots(Checkpoint("coop", {}, {}), pack)
