"""Query parameters: strict values, and none that is unknown."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

from tests.support.serving import (
    check_problem,
    digest,
    features,
    samples,
)

pytestmark = pytest.mark.pathless

QUERIES = [
    "top=0",
    "top=-1",
    "top=x",
    "top=99999999999999999999",
    "learn=maybe",
    "why=2",
    "source=",
    f"source={'a' * 300}",
]


@pytest.mark.parametrize("query", QUERIES)
def test_query_values_that_are_not_valid_are_refused(limited_service: TestClient, query: str) -> None:
    check_problem(limited_service.post(f"/v1/streams/s/predict?{query}", json={"features": features(samples(1))}), 422)


def test_an_unknown_query_parameter_is_refused_before_anything_is_learned(service: TestClient, stream: str) -> None:
    before = digest(service, stream)
    refused = service.post(f"{stream}/predict", json={"features": features(samples(1))}, params={"lern": "false"})
    assert refused.status_code == 422
    assert "lern" in refused.json()["detail"]
    assert "learn" in refused.json()["hint"]
    assert digest(service, stream) == before
