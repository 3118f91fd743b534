"""Alarms and admission counts of a session, as JSON values."""

from __future__ import annotations

from typing import Any

from cosmic_tta.service.errors import without_paths
from cosmic_tta.sessions.backend import SessionBackend


def alarm_status(session: SessionBackend) -> dict[str, Any]:
    """Return active alarms, the signals they test, and the samples that were not learned from, by reason."""
    return {
        "alarms": [
            {"kind": alarm.kind, "since": alarm.since, "detail": without_paths(alarm.detail)}
            for alarm in session.alarms()
        ],
        "signals": session.signals()._asdict(),
        "not_learned": session.not_learned,
    }
