from __future__ import annotations

import pytest

from cosmic_tta.core.errors import InputError
from cosmic_tta.reporting.plotting import requirements


def test_a_library_that_is_not_installed_is_named_with_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    requirements.require("numpy")
    monkeypatch.setattr(requirements, "find_spec", lambda name: None if name == "plotly" else object())
    assert not requirements.can_draw()
    with pytest.raises(InputError, match=r"need plotly, which is not installed.*: pip install 'cosmic-tta\[report\]'"):
        requirements.require("numpy", "plotly")


def test_with_every_library_charts_can_be_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requirements, "find_spec", lambda name: object())
    assert requirements.can_draw()
