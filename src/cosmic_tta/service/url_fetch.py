"""Images are fetched from URLs: from hosts that the operator allowed, and from public IP addresses alone.

A host name is resolved once, every address found is checked, and the connection goes to the checked address. So a
name that resolves differently the second time has no effect. A redirect is a new URL with the same checks.
"""

from __future__ import annotations

import http.client
import ipaddress
import socket
import ssl
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from urllib.parse import SplitResult, urljoin, urlsplit

from cosmic_tta.core.errors import InputError
from cosmic_tta.service.errors import Problem
from cosmic_tta.service.settings import MEGABYTE, ServiceSettings

PORTS = {"http": 80, "https": 443}
MAX_REDIRECTS = 3
REDIRECT_STATUSES = (301, 302, 303, 307, 308)
CHUNK_BYTES = 64 << 10
MAX_URL_LENGTH = 2048
ASK_OPERATOR = "Ask the operator of this server, or send the image itself."
Address = ipaddress.IPv4Address | ipaddress.IPv6Address
# IPv6 networks that embed IPv4 addresses: translated, tunnelled or compatible.
IPV4_IN_IPV6 = tuple(
    ipaddress.IPv6Network(text) for text in ("64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "::/96", "2001::/32")
)


def _resolve(host: str, port: int) -> list[str]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(entry[4][0]) for entry in found]


def is_public(text: str) -> bool:
    """Return whether an IP address is public: not private, loopback, link-local, multicast or reserved.

    >>> is_public("93.184.216.34"), is_public("127.0.0.1"), is_public("::ffff:10.0.0.1"), is_public("169.254.169.254")
    (True, False, False, False)
    """
    try:
        address: Address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return False
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return is_public(str(address.ipv4_mapped))
        if address.is_site_local or any(address in network for network in IPV4_IN_IPV6):
            return False
    return address.is_global and not (
        address.is_multicast
        or address.is_reserved
        or address.is_private
        or address.is_loopback
        or address.is_link_local
        or address.is_unspecified
    )


class UrlFetcher:
    """Fetches images from the hosts in `settings.fetch_hosts`.

    Args:
        settings: allowed hosts, timeout and largest image.
        resolve: resolves a host name; for tests.
        connect: opens a connection; for tests.

    Raises:
        InputError: an entry of `fetch_hosts` is not a host.
    """

    def __init__(
        self,
        settings: ServiceSettings,
        resolve: Callable[[str, int], Sequence[str]] = _resolve,
        connect: Callable[..., socket.socket] = socket.create_connection,
    ) -> None:
        self._settings, self._resolve, self._connect = settings, resolve, connect
        self._allowed = {_parse_host(entry) for entry in settings.fetch_hosts}

    def fetch(self, url: str) -> bytes:
        """Return the bytes at a URL.

        Raises:
            Problem: the URL is not allowed (403), cannot be fetched (422), or the image is too large (413).
        """
        if not self._allowed:
            raise Problem(
                403,
                "this server does not fetch images from URLs.",
                "Send the image itself. The operator can allow hosts: cosmic serve --fetch-from HOST.",
            )
        deadline = time.monotonic() + self._settings.fetch_seconds
        for _ in range(MAX_REDIRECTS + 1):
            parts = self._check_url(url)
            status, location, body = self._get(parts, deadline)
            if status not in REDIRECT_STATUSES:
                return body
            url = urljoin(url, location)
        raise Problem(422, f"the URL redirects more than {MAX_REDIRECTS} times.")

    def _check_url(self, url: str) -> SplitResult:
        """Refuse a URL that is malformed, or whose host is not allowed."""
        if len(url) > MAX_URL_LENGTH or not url.isascii() or any(ord(sign) <= 32 or sign in "\\\x7f" for sign in url):
            raise Problem(422, "the URL is too long, or has characters that URLs must not have.")
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError as error:
            raise Problem(422, f"the URL cannot be parsed ({error}).") from error
        if parts.scheme not in PORTS:
            raise Problem(422, "the URL must begin with http:// or https://.")
        if parts.username is not None or parts.password is not None:
            raise Problem(422, "the URL must not contain a user name.")
        host = (parts.hostname or "").rstrip(".")
        if (host, port or PORTS[parts.scheme]) not in self._allowed and (host, None) not in self._allowed:
            raise Problem(403, "this server does not fetch from that host.", ASK_OPERATOR)
        if port is not None and (host, port) not in self._allowed and port != PORTS[parts.scheme]:
            raise Problem(403, "this server does not fetch from that port.", ASK_OPERATOR)
        return parts

    def _get(self, parts: SplitResult, deadline: float) -> tuple[int, str, bytes]:
        """Return the status, the Location header and the body of a response."""
        host, port = (parts.hostname or "").rstrip("."), parts.port or PORTS[parts.scheme]
        try:
            addresses = self._resolve(host, port)
        except (OSError, UnicodeError) as error:
            raise Problem(422, "the host of the URL cannot be resolved.") from error
        # One address that is not public makes the whole answer untrusted.
        if not addresses or not all(is_public(address) for address in addresses):
            raise Problem(403, "the host of the URL has an address that is not public.")
        connection = _PinnedConnection(parts.scheme, host, port, addresses[0], self._connect, deadline)
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        try:
            connection.request("GET", target, headers={"Accept": "image/*", "Accept-Encoding": "identity"})
            with connection.getresponse() as response:
                if response.status in REDIRECT_STATUSES:
                    return response.status, response.headers.get("location", ""), b""
                if response.status != 200:
                    raise Problem(422, f"the URL answered with status {response.status}.")
                return 200, "", self._read(response, deadline)
        except (OSError, http.client.HTTPException, ValueError) as error:
            reason = "took too long" if isinstance(error, TimeoutError) else f"failed ({type(error).__name__})"
            raise Problem(422, f"fetching the image {reason}.") from error
        finally:
            connection.end()

    def _read(self, response: http.client.HTTPResponse, deadline: float) -> bytes:
        limit, size = self._settings.max_image_bytes, 0
        chunks: list[bytes] = []
        while chunk := response.read1(CHUNK_BYTES):
            size += len(chunk)
            if size > limit:
                raise Problem(413, f"the image at the URL is larger than {limit / MEGABYTE:g} MB.")
            chunks.append(chunk)
        if time.monotonic() >= deadline:  # the connection was cut, so the body may be incomplete
            raise TimeoutError
        return b"".join(chunks)


class _PinnedConnection(http.client.HTTPConnection):
    """A connection to a checked IP address, with the host name for TLS and the Host header."""

    def __init__(
        self, scheme: str, host: str, port: int, address: str, connect: Callable[..., socket.socket], deadline: float
    ) -> None:
        super().__init__(host, port)
        self._scheme, self._address, self._open, self._deadline = scheme, address, connect, deadline
        self._timer: threading.Timer | None = None

    def connect(self) -> None:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self.sock = self._open((self._address, self.port), timeout=left)
        if self._scheme == "https":
            self.sock = ssl.create_default_context().wrap_socket(self.sock, server_hostname=self.host)
        # A server that sends one byte per second never exceeds the timeout of a single read.
        self._timer = threading.Timer(left, self._shut_down, (self.sock,))
        self._timer.daemon = True
        self._timer.start()

    def end(self) -> None:
        """Stop the timer and close. `http.client` calls `close` while a response is still being read."""
        if self._timer is not None:
            self._timer.cancel()
        self.close()

    @staticmethod
    def _shut_down(connection: socket.socket) -> None:
        with suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)


def _parse_host(entry: str) -> tuple[str, int | None]:
    """Parse `host` or `host:port`."""
    try:
        parts = urlsplit(f"//{entry.strip()}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not host or parts.path or parts.query or parts.username or "*" in entry:
        raise InputError(f"--fetch-from takes a host such as images.example.org, or host:port; given {entry!r}.")
    return host.rstrip("."), port
