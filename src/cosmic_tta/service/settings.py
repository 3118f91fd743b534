"""Settings of one server: its encoders, limits, timeouts and access rules."""

from __future__ import annotations

from dataclasses import dataclass

from cosmic_tta.classifier import DEFAULT_AUX, DEFAULT_CLIP
from cosmic_tta.core.errors import InputError
from cosmic_tta.data.images.decode import MAX_PIXELS
from cosmic_tta.sessions.journal.writer import SyncPolicy

MEGABYTE = 1 << 20
SYNC_POLICIES = ("always", "everysec")
MAX_SECONDS = 3600
COUNTS = (
    "batch_size", "queue_size", "decode_workers", "max_images", "max_views", "max_streams", "max_pixels",
    "max_image_bytes",
)  # fmt: skip
TIMEOUTS = ("queue_seconds", "decode_seconds", "body_seconds", "header_seconds", "fetch_seconds")


@dataclass(frozen=True)
class ServiceSettings:
    """Encoders, limits, timeouts and access rules of one server.

    Args:
        encoders: encoders that streams may use. A client chooses one of these names, never a path.
        encoder_threads: threads per encoder; None leaves the choice to its library.
        sync_policy: when the journal is synced: `always` before each answer, `everysec` once per second.
        batch_size: images that are encoded together.
        batch_wait_ms: milliseconds that an image waits for others to be encoded with.
        queue_size: requests of one stream that may wait or run.
        queue_seconds: seconds that a request waits for its turn, or an image for a decoding process.
        decode_workers: processes that decode images.
        decode_seconds: seconds that decoding one image may take.
        max_pixels: pixels of one image.
        max_image_bytes: bytes of one encoded image file.
        max_images: images per request.
        max_views: views per image.
        max_body_bytes: bytes of one request body.
        max_import_bytes: bytes of one imported stream.
        max_pending_bytes: bytes of all request bodies that are held at once.
        body_seconds: seconds within which a body must arrive.
        header_seconds: seconds within which the headers must arrive.
        max_streams: streams on this server.
        fetch_hosts: hosts that images may be fetched from, as `host` or `host:port`; empty for none.
        fetch_seconds: seconds that fetching one image may take.
        token: token that every request must send; empty for none.
        allowed_hosts: values of the Host header that are accepted when there is no token.

    Raises:
        InputError: a value is out of range.

    >>> settings = ServiceSettings(queue_size=8, sync_policy="everysec")
    >>> settings.queue_size, settings.max_images
    (8, 64)
    >>> ServiceSettings(batch_size=0)
    Traceback (most recent call last):
    cosmic_tta.core.errors.InputError: batch_size must be at least 1; given 0.
    """

    encoders: tuple[str, ...] = (DEFAULT_CLIP, DEFAULT_AUX)
    encoder_threads: int | None = None
    sync_policy: SyncPolicy = "always"
    batch_size: int = 32
    batch_wait_ms: float = 4.0
    queue_size: int = 64
    queue_seconds: float = 30.0
    decode_workers: int = 2
    decode_seconds: float = 5.0
    max_pixels: int = MAX_PIXELS
    max_image_bytes: int = 20 * MEGABYTE
    max_images: int = 64
    max_views: int = 16
    max_body_bytes: int = 48 * MEGABYTE
    max_import_bytes: int = 256 * MEGABYTE
    max_pending_bytes: int = 512 * MEGABYTE
    body_seconds: float = 20.0
    header_seconds: float = 10.0
    max_streams: int = 256
    fetch_hosts: tuple[str, ...] = ()
    fetch_seconds: float = 5.0
    token: str = ""
    allowed_hosts: tuple[str, ...] = ("127.0.0.1", "localhost", "::1")

    def __post_init__(self) -> None:
        for name in COUNTS:
            if getattr(self, name) < 1:
                raise InputError(f"{name} must be at least 1; given {getattr(self, name)}.")
        for name in TIMEOUTS:
            if not 0 < getattr(self, name) <= MAX_SECONDS:
                raise InputError(f"{name} must be above 0 and at most {MAX_SECONDS}; given {getattr(self, name)}.")
        if self.sync_policy not in SYNC_POLICIES:
            raise InputError(f"sync_policy must be one of {', '.join(SYNC_POLICIES)}; given {self.sync_policy!r}.")
        if not 0 <= self.batch_wait_ms <= 1000:
            raise InputError(f"batch_wait_ms must be between 0 and 1000; given {self.batch_wait_ms}.")
