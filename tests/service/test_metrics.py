"""Metrics in Prometheus's text format."""

from __future__ import annotations

import pytest

from cosmic_tta.service.metrics import Metrics

pytestmark = pytest.mark.pathless


def test_requests_are_counted_and_unknown_methods_share_one_series() -> None:
    metrics = Metrics()
    for method in ("GET", "GET", "BREW", "MADE-UP"):
        metrics.count_request(method, "/live", 200, 0.003)
    text = metrics.render().decode()
    assert 'cosmic_requests_total{method="GET",route="/live",status="200"} 2.0' in text
    assert 'cosmic_requests_total{method="other",route="/live",status="200"} 2.0' in text
    assert 'cosmic_request_seconds_bucket{le="0.005",route="/live"} 4.0' in text
    assert "BREW" not in text


def test_the_series_of_a_deleted_stream_are_removed() -> None:
    metrics = Metrics()
    for stream in ("kept", "deleted"):
        metrics.steps.labels(stream, "true").inc()
        metrics.pending.labels(stream).set(1)
    metrics.remove_stream("deleted")
    metrics.remove_stream("unknown")
    text = metrics.render().decode()
    assert "deleted" not in text.replace("cosmic_streams", "")
    assert 'cosmic_steps_total{learned="true",stream="kept"} 1.0' in text
    assert 'cosmic_waiting{stream="kept"} 1.0' in text
