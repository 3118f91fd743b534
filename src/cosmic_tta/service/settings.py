"""What a server is told once: its bounds, its encoders, who may come in."""

from __future__ import annotations

from dataclasses import dataclass

from cosmic_tta.classifier import DEFAULT_AUX, DEFAULT_CLIP
from cosmic_tta.errors import InputError
from cosmic_tta.journal import Policy
from cosmic_tta.pictures import MAX_PIXELS

MEGABYTE = 1 << 20
POLICIES = ("always", "everysec")


@dataclass(frozen=True)
class Settings:
    """The bounds of one server. Times are in seconds, sizes in bytes."""

    encoders: tuple[str, ...] = (DEFAULT_CLIP, DEFAULT_AUX)  # a client names one of these, never a path
    threads: int | None = None  # of each encoder
    policy: Policy = "always"  # when the journal is synced
    batch: int = 32  # pictures encoded at once
    wait_ms: float = 4.0  # how long a picture waits for others to be encoded with
    queue: int = 64  # requests that may wait for one stream
    patience: float = 30.0  # a request waits so long for its turn
    workers: int = 2  # processes that decode
    decode_seconds: float = 5.0
    max_pixels: int = MAX_PIXELS
    picture_bytes: int = 20 * MEGABYTE
    pictures: int = 64  # in one request
    views: int = 16  # of a picture
    body_bytes: int = 48 * MEGABYTE
    import_bytes: int = 256 * MEGABYTE
    bodies_bytes: int = 512 * MEGABYTE  # of all requests that are being read
    body_seconds: float = 20.0
    head_seconds: float = 10.0
    streams: int = 256
    fetch_from: tuple[str, ...] = ()  # hosts that pictures may be fetched from; empty: none
    fetch_seconds: float = 5.0
    token: str = ""  # the server's own; empty: none is asked for
    hosts: tuple[str, ...] = ("127.0.0.1", "localhost", "::1")  # accepted in Host where there is no token

    def __post_init__(self) -> None:
        for name in ("batch", "queue", "workers", "pictures", "views", "streams", "max_pixels", "picture_bytes"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} must be at least 1; given {getattr(self, name)}.")
        for name in ("patience", "decode_seconds", "body_seconds", "head_seconds", "fetch_seconds"):
            if not 0 < getattr(self, name) <= 3600:
                raise InputError(f"{name} must be above 0, at most 3600 seconds; given {getattr(self, name)}.")
        if self.policy not in POLICIES:
            raise InputError(f"the policy is one of {', '.join(POLICIES)}; given {self.policy!r}.")
        if not 0 <= self.wait_ms <= 1000:
            raise InputError(f"wait_ms must be 0 to 1000; given {self.wait_ms}.")
