"""Every script of `examples/` runs, on little data."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from cosmic_tta.features.synthetic import superclass_pack
from tests.support.paths import ROOT

pytestmark = pytest.mark.pathless


def run_example(name: str, *arguments: str) -> str:
    words = [sys.executable, str(ROOT / "examples" / name), *arguments]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


def test_the_cost_of_bayes_means_is_printed_per_number_of_classes() -> None:
    printed = run_example("bayes_means_cost.py", "--classes", "5,9", "--images", "12")
    assert [line.split(" classes:")[0].strip() for line in printed.splitlines()[1:]] == ["5", "9"]


def test_the_fusion_tables_have_a_row_per_constant_and_value(tmp_path: Path) -> None:
    superclass_pack(3, images=30, dim=16, aux_dim=16, views=2).write(tmp_path / "pack")
    printed = run_example("fusion_table.py", str(tmp_path / "pack"), "--orders", "shuffle", "--seeds", "0", "--oracle")
    assert "cosmic@official, oracle" in printed
    assert printed.count("→") == 3


def test_the_shift_table_ends_with_the_mean() -> None:
    printed = run_example("shifts.py", "--severities", "5", "--methods", "tda", "--images", "10")
    header, *_, mean = printed.splitlines()
    assert header == "| shift | zero_shot | tda |"
    assert mean.startswith("| mean |")
