from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cosmic_tta.features.pack import FeaturePack
from tests.support.command import run


def test_names_are_shown_as_they_are(tmp_path: Path, pack: FeaturePack, capsys: pytest.CaptureFixture[str]) -> None:
    replace(pack, name="we[red]ird[/red]/x").write(tmp_path / "odd")
    words = ["--method", "zero_shot,dmn", "--limit", "5", "--samples", str(tmp_path / "s.npz")]
    assert run("eval", str(tmp_path / "odd"), *words) == 0
    assert "we[red]ird[/red]/x: 5 images" in capsys.readouterr().out
    assert len(list(tmp_path.glob("s.we_red_ird__red__x.*.npz"))) == 2


def test_a_narrow_terminal_and_a_long_title_lose_no_number(folder: str, capsys: pytest.CaptureFixture[str]) -> None:
    changes = ["window=20", "rows_per_step=8", "sharpness=9", "variance_prior=10", "temporal=false", "mean_prior=3"]
    words = [word for change in changes for word in ("--set", change)]
    assert run("eval", folder, "--method", "bayes_means,zero_shot", "--limit", "20", *words) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines() if "zero_shot" in line or "bayes" in line]
    assert [len(row) for row in rows] == [7 + len(changes), 7, 5, 5 + len(changes)]  # the last two: differences
