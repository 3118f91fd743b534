"""A client of the service that needs the standard library alone.

    client = Client("http://127.0.0.1:8765", token="...")
    stream = client.create("harbour", ["ship", "truck"])
    stream.predict(["a.jpg", "b.jpg"])      # predicts, and learns
    stream.predict("c.jpg", learn=False)    # predicts only

An error of the service is raised as `ServiceError`. A request that the server has not started (429, 503) is sent again
after the time that the server asks for.
"""

from __future__ import annotations

import http.client
import json
import os
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote, urlencode

from cosmic_tta.core.errors import InputError
from cosmic_tta.service.connection import JSON_TYPE, ServiceConnection, ServiceError

FileSource = str | os.PathLike[str] | bytes
Json = dict[str, Any]
BINARY_TYPE = "application/octet-stream"

__all__ = ["Client", "ServiceError", "StreamClient"]


class Client:
    """A connection to one server. It is not thread-safe; use one client per thread.

    Args:
        url: address of the server, such as `http://127.0.0.1:8765`.
        token: the server's token, or a stream's own.
        timeout: seconds that a response may take.
        max_attempts: how often a request that the server has not started is sent.

    Raises:
        InputError: the URL is not an http or https address.

    >>> client = Client("http://127.0.0.1:8765")
    >>> client.stream("harbour").name
    'harbour'
    >>> [stream["name"] for stream in client.streams()]  # doctest: +SKIP
    ['harbour']
    """

    def __init__(self, url: str, *, token: str = "", timeout: float = 60.0, max_attempts: int = 5) -> None:
        self._connection = ServiceConnection(url, token, timeout, max_attempts)

    def streams(self) -> list[Json]:
        """List the streams."""
        streams: list[Json] = self._connection.json("GET", "/v1/streams")["streams"]
        return streams

    def damaged(self) -> list[Json]:
        """List the streams whose files are damaged."""
        damaged: list[Json] = self._connection.json("GET", "/v1/streams")["damaged"]
        return damaged

    def create(self, name: str, classes: Sequence[str], **fields: Any) -> StreamClient:
        """Create a stream.

        Args:
            name: name of the stream.
            classes: its class names.
            **fields: other fields of the request, such as method, preset, params, encoder and aux.

        Returns:
            The stream; its `token` is set if `own_token` was asked for.
        """
        created = self._connection.json("POST", "/v1/streams", {"name": name, "classes": list(classes), **fields})
        return StreamClient(self._connection, name, created.get("token") or "")

    def stream(self, name: str) -> StreamClient:
        """Return an existing stream, without a request."""
        return StreamClient(self._connection, name)

    def import_(self, name: str, file: FileSource) -> StreamClient:
        """Create a stream from an exported file, given as a path or as bytes."""
        self._connection.request("POST", f"/v1/import?{urlencode({'name': name})}", _read(file), BINARY_TYPE)
        return StreamClient(self._connection, name)

    def recover(self, id: str) -> StreamClient:
        """Open a damaged stream with the events before the damage, by its id from `damaged`."""
        recovered = self._connection.json("POST", f"/v1/streams/{quote(id, safe='')}/recover")
        return StreamClient(self._connection, recovered["name"])

    def ready(self) -> bool:
        """Return whether the server accepts requests."""
        try:
            self._connection.request("GET", "/ready", max_attempts=1)
        except (ServiceError, OSError, http.client.HTTPException):
            return False
        return True

    def metrics(self) -> str:
        """Return the metrics in Prometheus's text format."""
        return self._connection.request("GET", "/metrics").decode()

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class StreamClient:
    """One stream of a server; made by `Client.create` or `Client.stream`.

    Args:
        connection: the connection to the server.
        name: name of the stream.
        token: the stream's own token, if it was just created.

    >>> stream = Client("http://127.0.0.1:8765").stream("harbour")
    >>> stream.name
    'harbour'
    >>> stream.predict("photo.png", top=1)[0]["answers"]  # doctest: +SKIP
    [{'label': 'ship', 'score': 0.98}]
    """

    def __init__(self, connection: ServiceConnection, name: str, token: str = "") -> None:
        self._connection, self.name, self.token = connection, name, token
        self._path = f"/v1/streams/{quote(name, safe='')}"

    def predict(
        self,
        images: FileSource | Sequence[FileSource],
        *,
        learn: bool = True,
        top: int | None = None,
        why: bool = False,
        source: str | None = None,
    ) -> list[Json]:
        """Predict images and, by default, learn from them.

        Args:
            images: one image or several, each a path or bytes.
            learn: whether the stream learns from them.
            top: classes per image; all by default.
            why: whether to explain each prediction.
            source: where the images come from.

        Returns:
            `step`, `learned`, `reason`, `answers` and `why` of each image.
        """
        single = isinstance(images, (str, bytes, os.PathLike))
        files: Sequence[FileSource] = [images] if single else images  # type: ignore[list-item,assignment]
        body, content_type = _multipart([_read(file) for file in files])
        return self._predict(body, content_type, learn, top, why, source)

    def predict_features(
        self,
        features: Sequence[Mapping[str, Any]],
        *,
        learn: bool = True,
        top: int | None = None,
        why: bool = False,
        source: str | None = None,
    ) -> list[Json]:
        """Predict encoded images: `{"clip": rows, "aux": row}` each, as lists or arrays. See `predict`."""
        plain = [{key: _to_list(rows) for key, rows in one.items() if rows is not None} for one in features]
        return self._predict(json.dumps({"features": plain}).encode(), JSON_TYPE, learn, top, why, source)

    def describe(self, *, digest: bool = False) -> Json:
        """Return configuration, progress, accuracies and alarms; with `digest` a fingerprint of the state."""
        return self._get(f"?digest={_flag(digest)}")

    def label(self, labels: Mapping[int, str]) -> None:
        """Record the true classes of earlier steps, for the monitor alone."""
        pairs = [{"step": int(step), "label": label} for step, label in labels.items()]
        self._post("/labels", {"labels": pairs})

    def pause(self) -> None:
        """Stop learning."""
        self._post("/pause")

    def resume(self) -> None:
        """Continue learning."""
        self._post("/resume")

    def reset(self) -> None:
        """Forget all that was learned."""
        self._post("/reset")

    def snapshot(self, note: str = "") -> Json:
        """Create a snapshot; one with a note is kept until it is deleted."""
        return self._post("/snapshots", {"note": note})

    def snapshots(self) -> list[Json]:
        """List the snapshots, newest first."""
        snapshots: list[Json] = self._get("/snapshots")["snapshots"]
        return snapshots

    def delete_snapshot(self, snapshot: str) -> None:
        """Delete a snapshot by its id; the newest cannot be deleted."""
        self._connection.json("DELETE", f"{self._path}/snapshots/{quote(snapshot, safe='')}")

    def roll_back(self, snapshot: str) -> None:
        """Return to a snapshot, by its id."""
        self._post("/roll-back", {"snapshot": snapshot})

    def sources(self) -> list[Json]:
        """List the sources that contributed to what was learned."""
        sources: list[Json] = self._get("/sources")["sources"]
        return sources

    def forget_source(self, source: str) -> None:
        """Replay the stream without the images of one source."""
        self._post("/forget-source", {"source": source})

    def change_classes(
        self,
        *,
        add: Sequence[str] = (),
        remove: Sequence[str] = (),
        rename: Mapping[str, str] | None = None,
        **fields: Any,
    ) -> Json:
        """Add, remove and rename classes in one request; `fields` are `keep_text` and `text`."""
        body = {"add": list(add), "remove": list(remove), "rename": dict(rename or {}), **fields}
        return self._post("/classes", body)

    def export(self, file: str | os.PathLike[str]) -> None:
        """Write the stream to one file."""
        Path(file).write_bytes(self._connection.request("GET", f"{self._path}/export"))

    def delete(self) -> None:
        """Delete the stream and its files."""
        self._connection.json("DELETE", self._path)

    def _get(self, path: str) -> Json:
        body: Json = self._connection.json("GET", self._path + path)
        return body

    def _post(self, path: str, body: Any = None) -> Json:
        response: Json = self._connection.json("POST", self._path + path, body)
        return response

    def _predict(
        self, body: bytes, content_type: str, learn: bool, top: int | None, why: bool, source: str | None
    ) -> list[Json]:
        query = {"learn": _flag(learn), "why": _flag(why)}
        query |= {} if top is None else {"top": str(top)}
        query |= {} if source is None else {"source": source}
        path = f"{self._path}/predict?{urlencode(query)}"
        predictions: list[Json] = json.loads(self._connection.request("POST", path, body, content_type))["predictions"]
        return predictions


def _flag(value: bool) -> str:
    return "true" if value else "false"


def _to_list(rows: Any) -> Any:
    return rows.tolist() if hasattr(rows, "tolist") else rows


def _read(file: FileSource) -> bytes:
    if isinstance(file, bytes):
        return file
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise InputError(f"{os.fspath(file)}: cannot be read: {error.strerror}.") from error


def _multipart(files: Sequence[bytes]) -> tuple[bytes, str]:
    """Return files as a multipart body, and its Content-Type."""
    boundary = secrets.token_hex(24)
    parts = []
    for number, data in enumerate(files):
        head = f'--{boundary}\r\nContent-Disposition: form-data; name="images"; filename="{number}"\r\n'
        parts += [head.encode(), f"Content-Type: {BINARY_TYPE}\r\n\r\n".encode(), data, b"\r\n"]
    return b"".join([*parts, f"--{boundary}--\r\n".encode()]), f"multipart/form-data; boundary={boundary}"
