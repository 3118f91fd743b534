"""What a host reports of its streams while it serves them."""

from __future__ import annotations

from typing import Protocol

from cosmic_tta.service.image_ingest import IngestedImages
from cosmic_tta.service.stream_queue import PredictionBatch, StreamQueue


class Observer(Protocol):
    """Is called in the event loop after each change of a stream. It must return at once."""

    def on_predictions(self, queue: StreamQueue, batch: PredictionBatch, inputs: IngestedImages) -> None:
        """Samples were predicted and journalled."""

    def on_change(self, queue: StreamQueue, change: str, number: int | None = None) -> None:
        """A stream was changed: paused, rolled back, ...; `number` is its last event."""

    def on_delete(self, queue: StreamQueue) -> None:
        """A stream was deleted."""
