"""Values that a session returns: the result of a step and a summary of its health."""

from __future__ import annotations

from typing import NamedTuple

from cosmic_tta.core.types import Prediction
from cosmic_tta.sessions.admission import Reason


class HealthSummary(NamedTuple):
    """Whether a session works well, in a few values: for lists of many sessions."""

    fallen_back: bool  # labels showed harm: zero-shot answers and nothing is learned until the session is resumed
    accuracy: float | None  # of the labelled answers
    zero_shot_accuracy: float | None
    alarms: tuple[str, ...]  # kinds of the active alarms


class StepResult(NamedTuple):
    """The answer to one sample, its event number, and whether the session learned from the sample."""

    number: int
    prediction: Prediction
    learned: bool
    reason: Reason = ""  # why the session did not learn; empty if it did
