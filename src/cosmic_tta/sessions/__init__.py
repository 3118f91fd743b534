"""Durable sessions: journal, snapshots, recovery, admission of samples, monitor and alarms; and saved states.

Imports `core` and `methods`. `evaluation`, `classifier`, `service`, `distributed` and `cli` import it.
"""

from cosmic_tta.sessions.admission import AdmissionPolicy
from cosmic_tta.sessions.alarms import AlarmPolicy
from cosmic_tta.sessions.session import Session
from cosmic_tta.sessions.session_settings import SessionSettings
from cosmic_tta.sessions.state_file import load, save
from cosmic_tta.sessions.store import Store

__all__ = ["AdmissionPolicy", "AlarmPolicy", "Session", "SessionSettings", "Store", "load", "save"]
