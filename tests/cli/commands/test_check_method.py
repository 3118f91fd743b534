from __future__ import annotations

import json
from pathlib import Path

import pytest

from cosmic_tta.cli.app import main
from cosmic_tta.evaluation.method_checks import CHECKS


def run(*words: str) -> int:
    with pytest.raises(SystemExit) as stop:
        main(words)
    return int(stop.value.code or 0)


def test_a_line_per_check_and_exit_code_0(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "checks.json"
    assert run("check-method", "zero_shot", "--json", str(file)) == 0
    assert capsys.readouterr().out.split() == [word for check in CHECKS for word in ("passed", check)]
    assert json.loads(file.read_text()) == [{"check": check, "passed": True, "problem": ""} for check in CHECKS]


def test_a_check_that_fails_is_reported_and_the_others_still_run(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(make: object) -> None:
        raise ZeroDivisionError("division by zero")

    monkeypatch.setitem(CHECKS, "one_view", broken)
    assert run("check-method", "zero_shot") == 1
    lines = capsys.readouterr().out.splitlines()
    assert "failed  one_view: ZeroDivisionError: division by zero" in lines
    assert len(lines) == len(CHECKS)


def test_an_unknown_method_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("check-method", "cosmik") == 2
    assert "did you mean 'cosmic'" in capsys.readouterr().err
