"""Metrics for Prometheus, in a registry of their own."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

SECONDS_BUCKETS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30)
SIZE_BUCKETS = (1, 2, 4, 8, 16, 32, 64, 128)
HTTP_METHODS = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"})


class Metrics:
    """Counters, gauges and histograms of one server. Series of a stream carry its name as a label."""

    def __init__(self) -> None:
        registry = self._registry = CollectorRegistry()
        self._requests = Counter(
            "cosmic_requests", "Requests by route and status", ["method", "route", "status"], registry=registry
        )
        self._request_seconds = Histogram(
            "cosmic_request_seconds", "Seconds per request", ["route"], buckets=SECONDS_BUCKETS, registry=registry
        )
        self.steps = Counter("cosmic_steps", "Samples predicted", ["stream", "learned"], registry=registry)
        self.batch_sizes = Histogram(
            "cosmic_encode_batch", "Images encoded together", buckets=SIZE_BUCKETS, registry=registry
        )
        self.commit_sizes = Histogram(
            "cosmic_commit_group", "Samples written to disk together", buckets=SIZE_BUCKETS, registry=registry
        )
        self.decoders_killed = Counter("cosmic_decoders_killed", "Decoding processes killed", registry=registry)
        self.pending = Gauge("cosmic_waiting", "Requests waiting or running", ["stream"], registry=registry)
        self.streams = Gauge("cosmic_streams", "Streams by health", ["health"], registry=registry)

    def count_request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request and its duration."""
        self._requests.labels(method if method in HTTP_METHODS else "other", route, str(status)).inc()
        self._request_seconds.labels(route).observe(seconds)

    def remove_stream(self, stream: str) -> None:
        """Remove the series of a deleted stream."""
        for learned in ("true", "false"):
            self._remove(self.steps, (stream, learned))
        self._remove(self.pending, (stream,))

    def render(self) -> bytes:
        """Return all metrics in Prometheus's text format."""
        return generate_latest(self._registry)

    @staticmethod
    def _remove(family: Counter | Gauge, labels: Iterable[str]) -> None:
        with suppress(KeyError):
            family.remove(*labels)
