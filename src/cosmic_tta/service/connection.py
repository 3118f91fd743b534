"""The HTTP connection of the client: one that is kept open, with retries of requests that were not started."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from cosmic_tta.core.errors import CosmicError, InputError

JSON_TYPE = "application/json"
MAX_IDLE_SECONDS = 15.0  # after which a connection is opened again; the server closes it after 30
MAX_RETRY_SECONDS = 60.0  # that one Retry-After may ask for
RETRY_STATUSES = (429, 503)  # of requests that the server has not started


class ServiceError(CosmicError):
    """An error response of the service.

    Args:
        status: HTTP status.
        error: error code.
        detail: what was given and what was expected.
        hint: what to do next.

    >>> error = ServiceError(404, "not_found", "there is no stream 'x'.", "GET /v1/streams lists the streams.")
    >>> print(error)
    there is no stream 'x'. GET /v1/streams lists the streams.
    """

    def __init__(self, status: int, error: str, detail: str, hint: str) -> None:
        super().__init__(f"{detail} {hint}".strip())
        self.status, self.error, self.detail, self.hint = status, error, detail, hint


class ServiceConnection:
    """A connection to one server. It is not thread-safe.

    Args:
        url: address of the server.
        token: token that every request sends; empty for none.
        timeout: seconds that a response may take.
        max_attempts: how often a request that the server has not started is sent.

    Raises:
        InputError: the URL is not an http or https address.
    """

    def __init__(self, url: str, token: str, timeout: float, max_attempts: int) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InputError(f"the URL of the service must look like http://127.0.0.1:8765; given {url!r}.")
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self._http = kind(parts.hostname, parts.port, timeout=timeout)
        self._base_path, self._token, self._max_attempts = parts.path.rstrip("/"), token, max(1, max_attempts)
        self._last_used = 0.0

    def close(self) -> None:
        """Close the connection; the next request opens it again."""
        opened = getattr(self, "_http", None)  # missing if the URL was refused
        if opened is not None:
            opened.close()

    def __del__(self) -> None:
        self.close()

    def json(self, method: str, path: str, body: Any = None) -> Any:
        """Send JSON and return the JSON of the response."""
        data = None if body is None else json.dumps(body).encode()
        return json.loads(self.request(method, path, data))

    def request(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        content_type: str = JSON_TYPE,
        max_attempts: int | None = None,
    ) -> bytes:
        """Send a request and return the body of the response.

        Raises:
            ServiceError: the server answered with an error.
        """
        headers = {"Content-Type": content_type} if body is not None else {}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        attempts_left = max_attempts or self._max_attempts
        while True:
            attempts_left -= 1
            response, data = self._send(method, self._base_path + path, body, headers)
            if response.status < 400:
                return data
            retry_after = response.headers.get("Retry-After", "")
            if attempts_left <= 0 or response.status not in RETRY_STATUSES or not retry_after.isdigit():
                raise _service_error(response.status, data)
            time.sleep(min(float(retry_after), MAX_RETRY_SECONDS))

    def _send(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]
    ) -> tuple[http.client.HTTPResponse, bytes]:
        if time.monotonic() - self._last_used > MAX_IDLE_SECONDS:
            self._http.close()  # the server may close it at any moment, and a step must not be sent twice
        self._last_used = time.monotonic()
        is_new = self._http.sock is None
        try:
            return self._send_once(method, path, body, headers)
        except (http.client.RemoteDisconnected, ConnectionError):
            self._http.close()
            # The server may have closed an idle connection. Only a GET is sent again.
            if is_new or method != "GET":
                raise
            return self._send_once(method, path, body, headers)
        except BaseException:
            self._http.close()
            raise

    def _send_once(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]
    ) -> tuple[http.client.HTTPResponse, bytes]:
        self._http.request(method, path, body, dict(headers))
        response = self._http.getresponse()
        data = response.read()
        self._last_used = time.monotonic()
        return response, data


def _service_error(status: int, data: bytes) -> ServiceError:
    try:
        problem = json.loads(data)
        return ServiceError(status, str(problem["error"]), str(problem["detail"]), str(problem["hint"]))
    except (ValueError, KeyError, TypeError):
        return ServiceError(status, "error", f"the server answered with status {status}.", "")
