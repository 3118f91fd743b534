"""A client of the service, of Python's own library alone.

    client = Client("http://127.0.0.1:8765", token="...")
    stream = client.create("harbour", ["ship", "truck"])
    stream.predict(["a.jpg", "b.jpg"])      # names them, and learns
    stream.predict("c.jpg", learn=False)    # only looks

Errors of the service are raised as `ServiceError` with its words. Where the service says that it is busy, and that it
has not begun, the client waits as long as it is told and tries again.
"""

from __future__ import annotations

import http.client
import json
import os
import secrets
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote, urlencode, urlsplit

from cosmic_tta.errors import CosmicError, InputError

Picture = str | os.PathLike[str] | bytes
Told = dict[str, Any]
JSON = "application/json"
IDLE = 15.0  # seconds after which a connection is made anew; the server keeps it for 30
LONGEST_WAIT = 60.0  # seconds that one Retry-After is heeded for


class ServiceError(CosmicError):
    """What the service refused, in its own words."""

    def __init__(self, status: int, error: str, detail: str, hint: str) -> None:
        super().__init__(f"{detail} {hint}".strip())
        self.status, self.error, self.detail, self.hint = status, error, detail, hint


class Client:
    """A server, by its address.

    One connection is kept open; a client is for one thread, make another for another.

    Args:
        url: such as `http://127.0.0.1:8765`.
        token: the server's, or a stream's own.
        timeout: seconds that an answer may take.
        tries: how often a request that was not begun is sent.
    """

    def __init__(self, url: str, *, token: str = "", timeout: float = 60.0, tries: int = 5) -> None:
        split = urlsplit(url)
        if split.scheme not in ("http", "https") or not split.hostname:
            raise InputError(f"the service's address is such as http://127.0.0.1:8765; given {url!r}.")
        kind = http.client.HTTPSConnection if split.scheme == "https" else http.client.HTTPConnection
        self._connection = kind(split.hostname, split.port, timeout=timeout)
        self._base, self._token, self._tries = split.path.rstrip("/"), token, max(1, tries)
        self._used = 0.0  # when the connection was last in use

    def streams(self) -> list[Told]:
        """List the streams."""
        listed: list[Told] = self._json("GET", "/v1/streams")["streams"]
        return listed

    def damaged(self) -> list[Told]:
        """List the streams whose files are damaged, with what is known."""
        listed: list[Told] = self._json("GET", "/v1/streams")["damaged"]
        return listed

    def create(self, name: str, classes: Sequence[str], **wanted: Any) -> Stream:
        """Make a stream; `wanted` are the other fields of the route: method, preset, params, encoder, aux, ..."""
        made = self._json("POST", "/v1/streams", {"name": name, "classes": list(classes), **wanted})
        return Stream(self, name, made.get("token") or "")

    def stream(self, name: str) -> Stream:
        """Return a stream that is there."""
        return Stream(self, name)

    def import_(self, name: str, file: Picture) -> Stream:
        """Make a stream of an exported file."""
        self._request("POST", f"/v1/import?{urlencode({'name': name})}", _read(file), "application/octet-stream")
        return Stream(self, name)

    def ready(self) -> bool:
        """Tell whether the server takes requests."""
        try:
            self._request("GET", "/ready", tries=1)
        except (ServiceError, OSError, http.client.HTTPException):
            return False
        return True

    def metrics(self) -> str:
        """Return the figures for Prometheus."""
        return self._request("GET", "/metrics").decode()

    def close(self) -> None:
        """End the connection."""
        connection = getattr(self, "_connection", None)  # not there if the address was refused
        if connection is not None:
            connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()

    def _json(self, method: str, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        return json.loads(self._request(method, path, data, JSON))

    def _request(
        self, method: str, path: str, body: bytes | None = None, kind: str = JSON, tries: int | None = None
    ) -> bytes:
        headers = {"Content-Type": kind} if body is not None else {}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        left = tries or self._tries
        while True:
            left -= 1
            response, data = self._sent(method, self._base + path, body, headers)
            if response.status < 400:
                return data
            wait = response.headers.get("Retry-After", "")
            if left <= 0 or response.status not in (429, 503) or not wait.isdigit():
                raise _error(response.status, data)
            time.sleep(min(float(wait), LONGEST_WAIT))

    def _sent(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]
    ) -> tuple[http.client.HTTPResponse, bytes]:
        if time.monotonic() - self._used > IDLE:
            self._connection.close()  # the server may be about to, and a step is not sent twice
        self._used = time.monotonic()
        fresh = self._connection.sock is None
        try:
            return self._once(method, path, body, headers)
        except (http.client.RemoteDisconnected, ConnectionError):
            self._connection.close()
            # A kept connection may have been closed while it was idle. What may have been begun is not sent again.
            if fresh or method != "GET":
                raise
            return self._once(method, path, body, headers)
        except BaseException:
            self._connection.close()
            raise

    def _once(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]
    ) -> tuple[http.client.HTTPResponse, bytes]:
        self._connection.request(method, path, body, dict(headers))
        response = self._connection.getresponse()
        data = response.read()
        self._used = time.monotonic()
        return response, data


class Stream:
    """One stream of a server."""

    def __init__(self, client: Client, name: str, token: str = "") -> None:
        self._client, self.name, self.token = client, name, token
        self._path = f"/v1/streams/{quote(name, safe='')}"

    def predict(
        self,
        pictures: Picture | Sequence[Picture],
        *,
        learn: bool = True,
        top: int | None = None,
        why: bool = False,
        source: str | None = None,
    ) -> list[Told]:
        """Name what is on pictures (paths or bytes): `step`, `learned`, `answers` and perhaps `why` of each."""
        one = isinstance(pictures, (str, bytes, os.PathLike))
        files: Sequence[Picture] = [pictures] if one else pictures  # type: ignore[list-item,assignment]
        body, kind = _multipart([_read(file) for file in files])
        return self._predicted(body, kind, learn, top, why, source)

    def predict_features(
        self,
        features: Sequence[Mapping[str, Any]],
        *,
        learn: bool = True,
        top: int | None = None,
        why: bool = False,
        source: str | None = None,
    ) -> list[Told]:
        """The same of encoded pictures: `{"clip": rows, "aux": row}` each, lists or arrays."""
        plain = [{key: _plain(rows) for key, rows in one.items() if rows is not None} for one in features]
        return self._predicted(json.dumps({"features": plain}).encode(), JSON, learn, top, why, source)

    def describe(self, *, digest: bool = False) -> Told:
        """Tell what it is, how far it is and how it does."""
        return self._get(f"?digest={_word(digest)}")

    def label(self, labels: Mapping[int, str]) -> None:
        """Tell late what steps really were, for the monitor only."""
        told = [{"step": int(step), "label": label} for step, label in labels.items()]
        self._post("/labels", {"labels": told})

    def pause(self) -> None:
        """Stop learning."""
        self._post("/pause")

    def resume(self) -> None:
        """Learn again."""
        self._post("/resume")

    def reset(self) -> None:
        """Forget all that was learned."""
        self._post("/reset")

    def snapshot(self, note: str = "") -> Told:
        """Write the state to disk."""
        return self._post("/snapshots", {"note": note})

    def snapshots(self) -> list[Told]:
        """List what can be gone back to."""
        listed: list[Told] = self._get("/snapshots")["snapshots"]
        return listed

    def remove_snapshot(self, snapshot: str) -> None:
        """Remove a snapshot, by its id; the newest stays."""
        self._client._json("DELETE", f"{self._path}/snapshots/{quote(snapshot, safe='')}")

    def sources(self) -> list[Told]:
        """List who had a part in what was learned."""
        listed: list[Told] = self._get("/sources")["sources"]
        return listed

    def roll_back(self, snapshot: str) -> None:
        """Go back to a snapshot, by its id."""
        self._post("/roll-back", {"snapshot": snapshot})

    def change_classes(
        self,
        *,
        add: Sequence[str] = (),
        remove: Sequence[str] = (),
        rename: Mapping[str, str] | None = None,
        **more: Any,
    ) -> Told:
        """Add, remove and rename classes in one go."""
        return self._post("/classes", {"add": list(add), "remove": list(remove), "rename": dict(rename or {}), **more})

    def export(self, file: str | os.PathLike[str]) -> None:
        """Write the stream to one file."""
        Path(file).write_bytes(self._client._request("GET", f"{self._path}/export"))

    def delete(self) -> None:
        """Remove it and its files."""
        self._client._json("DELETE", self._path)

    def _get(self, path: str) -> Told:
        told: Told = self._client._json("GET", self._path + path)
        return told

    def _post(self, path: str, body: Any = None) -> Told:
        told: Told = self._client._json("POST", self._path + path, body)
        return told

    def _predicted(
        self, body: bytes, kind: str, learn: bool, top: int | None, why: bool, source: str | None
    ) -> list[Told]:
        asked = {"learn": _word(learn), "why": _word(why)}
        asked |= {} if top is None else {"top": str(top)}
        asked |= {} if source is None else {"source": source}
        told = json.loads(self._client._request("POST", f"{self._path}/predict?{urlencode(asked)}", body, kind))
        predictions: list[Told] = told["predictions"]
        return predictions


def _word(flag: bool) -> str:
    return "true" if flag else "false"


def _plain(rows: Any) -> Any:
    return rows.tolist() if hasattr(rows, "tolist") else rows


def _read(file: Picture) -> bytes:
    if isinstance(file, bytes):
        return file
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise InputError(f"{os.fspath(file)}: cannot be read: {error.strerror}.") from error


def _multipart(files: Sequence[bytes]) -> tuple[bytes, str]:
    boundary = secrets.token_hex(24)
    parts = []
    for number, data in enumerate(files):
        head = f'--{boundary}\r\nContent-Disposition: form-data; name="pictures"; filename="{number}"\r\n'
        parts += [head.encode(), b"Content-Type: application/octet-stream\r\n\r\n", data, b"\r\n"]
    return b"".join([*parts, f"--{boundary}--\r\n".encode()]), f"multipart/form-data; boundary={boundary}"


def _error(status: int, data: bytes) -> ServiceError:
    try:
        told = json.loads(data)
        return ServiceError(status, str(told["error"]), str(told["detail"]), str(told["hint"]))
    except (ValueError, KeyError, TypeError):
        return ServiceError(status, "error", f"the server answered {status}.", "")
