from __future__ import annotations

from typing import Any

import pytest

from cosmic_tta.core.errors import SessionError
from cosmic_tta.sessions.session_settings import SessionSettings


def test_settings_come_back_from_plain_values() -> None:
    settings = SessionSettings("everysec", keep=3, every=7)
    assert SessionSettings.parse(settings.plain()) == settings


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"keep": 0}, "keep must be a whole number, at least 1; given 0"),
        ({"every": True}, "every must be a whole number"),
        ({"every": 2.5}, "every must be a whole number"),
        ({"policy": "never"}, "must be 'always' or 'everysec'; given 'never'"),
        ({"size": 1}, r"policy, keep and every; given \['size'\]"),
    ],
)
def test_invalid_settings_are_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(SessionError, match=message):
        SessionSettings.parse(fields)
