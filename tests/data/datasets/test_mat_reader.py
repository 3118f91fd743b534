from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from scipy.io import savemat

from cosmic_tta.core.errors import DatasetError
from cosmic_tta.data.datasets import load_dataset
from cosmic_tta.data.datasets.mat_reader import read_mat
from tests.support import trees


@pytest.mark.parametrize("compressed", [False, True])
def test_valid_matlab_files_pass(compressed: bool, tmp_path: Path) -> None:
    values = {
        "numbers": [[1, 2, 3]],
        "word": "né",
        "nothing": [],
        "complex": [[1j, 2]],
        "rows": [{"name": "a", "deep": {"x": 1}}, {"name": "b", "deep": {"x": 2}}],
    }
    savemat(tmp_path / "x.mat", values, do_compression=compressed)
    fields = read_mat(tmp_path / "x.mat")
    assert [row["deep"]["x"] for row in fields["rows"]] == [1, 2]
    assert fields["word"] == "né"
    savemat(tmp_path / "old.mat", {"numbers": [[1, 2]]}, format="4")
    with pytest.raises(DatasetError, match="not of version 5 to 7"):
        read_mat(tmp_path / "old.mat")


def test_matlab_files_without_scipy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trees.flowers_published(tmp_path)
    monkeypatch.setitem(sys.modules, "scipy.io", None)
    with pytest.raises(DatasetError, match=re.escape("pip install 'cosmic-tta[data]'")):
        load_dataset("flowers", tmp_path, strict=False)
