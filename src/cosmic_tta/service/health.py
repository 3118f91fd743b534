"""What guards and alarms say of a session."""

from __future__ import annotations

from typing import Any

from cosmic_tta.service.refusals import placeless
from cosmic_tta.session import Session


def guarded(session: Session) -> dict[str, Any]:
    """Tell the alarms that are on, the signals behind them, and how many samples did not teach, by reason."""
    return {
        "alarms": [
            {"kind": alarm.kind, "since": alarm.since, "detail": placeless(alarm.detail)} for alarm in session.alarms()
        ],
        "signals": session.signals()._asdict(),
        "not_learned": session.not_learned,
    }
