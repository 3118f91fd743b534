"""Figures for Prometheus, in a registry of their own."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30)
SIZES = (1, 2, 4, 8, 16, 32, 64, 128)
METHODS = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"})


class Metrics:
    """What the server counts. Streams are told apart by name; a stream that is gone leaves no figures behind."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._requests = Counter(
            "cosmic_requests", "Requests by route and status", ["method", "route", "status"], registry=self.registry
        )
        self._seconds = Histogram(
            "cosmic_request_seconds", "Time from a request to its answer", ["route"], buckets=SECONDS,
            registry=self.registry,
        )  # fmt: skip
        self.steps = Counter("cosmic_steps", "Samples answered", ["stream", "learned"], registry=self.registry)
        self.batches = Histogram(
            "cosmic_encode_batch", "Pictures encoded together", buckets=SIZES, registry=self.registry
        )
        self.groups = Histogram(
            "cosmic_commit_group", "Samples that went to disk together", buckets=SIZES, registry=self.registry
        )
        self.killed = Gauge("cosmic_decoders_killed", "Decoding processes that were killed", registry=self.registry)
        self.waiting = Gauge("cosmic_waiting", "Requests waiting or under way", ["stream"], registry=self.registry)
        self.streams = Gauge("cosmic_streams", "Streams by health", ["health"], registry=self.registry)

    def request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request."""
        self._requests.labels(method if method in METHODS else "other", route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def forget(self, stream: str) -> None:
        """Drop the figures of a stream."""
        for learned in ("true", "false"):
            self._drop(self.steps, (stream, learned))
        self._drop(self.waiting, (stream,))

    def text(self) -> bytes:
        """Return all figures as Prometheus reads them."""
        return generate_latest(self.registry)

    @staticmethod
    def _drop(family: Counter | Gauge, labels: Iterable[str]) -> None:
        with suppress(KeyError):
            family.remove(*labels)
