"""Settings that are out of range are refused."""

from __future__ import annotations

from typing import Any

import pytest

from cosmic_tta.core.errors import InputError
from cosmic_tta.service.settings import COUNTS, TIMEOUTS, ServiceSettings

pytestmark = pytest.mark.pathless
REFUSED: list[dict[str, Any]] = [
    *({name: 0} for name in COUNTS),
    *({name: seconds} for name in TIMEOUTS for seconds in (0, -1.0, 3601.0, float("nan"))),
    {"sync_policy": "never"},
    {"batch_wait_ms": -1.0},
    {"batch_wait_ms": 1001.0},
]


@pytest.mark.parametrize("values", REFUSED, ids=str)
def test_a_value_out_of_range_is_refused_by_name(values: dict[str, Any]) -> None:
    (name,) = values
    with pytest.raises(InputError, match=f"{name} must be .*; given"):
        ServiceSettings(**values)


def test_the_limits_themselves_are_accepted() -> None:
    limits: dict[str, Any] = {**dict.fromkeys(COUNTS, 1), **dict.fromkeys(TIMEOUTS, 3600.0), "batch_wait_ms": 1000.0}
    settings = ServiceSettings(**limits)
    assert settings.queue_size == 1
    assert settings.fetch_seconds == 3600.0
