"""Pictures fetched by their addresses: off unless hosts are named, and then from public addresses alone.

A host is looked up once, every address found is checked, and the connection goes to the one that was checked: a name
that answers differently the second time gains nothing. A redirect is a new address, and passes the same checks.
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

from cosmic_tta.errors import InputError
from cosmic_tta.service.refusals import Refused
from cosmic_tta.service.settings import Settings

PORTS = {"http": 80, "https": 443}
REDIRECTS = 3
MOVED = (301, 302, 303, 307, 308)
CHUNK = 64 << 10
LONGEST = 2048  # characters of an address
Address = ipaddress.IPv4Address | ipaddress.IPv6Address
# IPv6 that leads to IPv4: translated, tunnelled, compatible. No picture lies there.
CARRIED = tuple(
    ipaddress.IPv6Network(text) for text in ("64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "::/96", "2001::/32")
)


def _resolve(host: str, port: int) -> list[str]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(entry[4][0]) for entry in found]


def public(text: str) -> bool:
    """Tell whether an address is one of the open internet: not private, loopback, link-local, multicast, reserved.

    >>> public("93.184.216.34"), public("127.0.0.1"), public("::ffff:10.0.0.1"), public("169.254.169.254")
    (True, False, False, False)
    """
    try:
        address: Address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return False
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return public(str(address.ipv4_mapped))
        if address.is_site_local or any(address in network for network in CARRIED):
            return False
    return address.is_global and not (
        address.is_multicast
        or address.is_reserved
        or address.is_private
        or address.is_loopback
        or address.is_link_local
        or address.is_unspecified
    )


class Fetcher:
    """Fetches pictures from the hosts that the server's owner named."""

    def __init__(
        self,
        settings: Settings,
        resolve: Callable[[str, int], Sequence[str]] = _resolve,
        connect: Callable[..., socket.socket] = socket.create_connection,
    ) -> None:
        self.settings, self._resolve, self._connect = settings, resolve, connect
        self.allowed = {_allowed(entry) for entry in settings.fetch_from}

    def fetch(self, url: str) -> bytes:
        """Return what lies at an address, or refuse it."""
        if not self.allowed:
            raise Refused(
                403,
                "this server fetches no pictures from addresses.",
                "Send the picture itself. Whoever runs the server can allow hosts: cosmic serve --fetch-from HOST.",
            )
        deadline = time.monotonic() + self.settings.fetch_seconds
        for _ in range(REDIRECTS + 1):
            split = self._checked(url)
            status, moved, body = self._get(split, deadline)
            if status not in MOVED:
                return body
            url = urljoin(url, moved)
        raise Refused(422, f"the address was redirected more than {REDIRECTS} times.")

    def _checked(self, url: str) -> SplitResult:
        """Refuse an address that is malformed, or whose host is not on the list."""
        if len(url) > LONGEST or not url.isascii() or any(ord(sign) <= 32 or sign in "\\\x7f" for sign in url):
            raise Refused(422, "the address has characters that addresses have not, or is too long.")
        try:
            split = urlsplit(url)
            port = split.port
        except ValueError as error:
            raise Refused(422, f"the address cannot be understood ({error}).") from error
        if split.scheme not in PORTS:
            raise Refused(422, "an address begins with http:// or https://.")
        if split.username is not None or split.password is not None:
            raise Refused(422, "an address with a user in it is not fetched.")
        host = (split.hostname or "").rstrip(".")
        if (host, port or PORTS[split.scheme]) not in self.allowed and (host, None) not in self.allowed:
            raise Refused(
                403, "this server does not fetch from that host.", "Ask whoever runs it, or send the picture."
            )
        if port is not None and (host, port) not in self.allowed and port != PORTS[split.scheme]:
            raise Refused(
                403, "this server does not fetch from that port.", "Ask whoever runs it, or send the picture."
            )
        return split

    def _get(self, split: SplitResult, deadline: float) -> tuple[int, str, bytes]:
        host, port = (split.hostname or "").rstrip("."), split.port or PORTS[split.scheme]
        try:
            addresses = self._resolve(host, port)
        except (OSError, UnicodeError) as error:
            raise Refused(422, "the address's host cannot be found.") from error
        # One bad apple and none is taken: whoever answers for this name is not to be trusted.
        if not addresses or not all(public(address) for address in addresses):
            raise Refused(403, "the address leads to a place that is not public; it is not fetched.")
        connection = _Pinned(split.scheme, host, port, addresses[0], self._connect, deadline)
        target = (split.path or "/") + (f"?{split.query}" if split.query else "")
        try:
            connection.request("GET", target, headers={"Accept": "image/*", "Accept-Encoding": "identity"})
            with connection.getresponse() as response:
                if response.status in MOVED:
                    return response.status, response.headers.get("location", ""), b""
                if response.status != 200:
                    raise Refused(422, f"the address answered {response.status}.")
                return 200, "", self._body(response, deadline)
        except (OSError, http.client.HTTPException, ValueError) as error:
            reason = "took too long" if isinstance(error, TimeoutError) else f"failed ({type(error).__name__})"
            raise Refused(422, f"fetching the picture {reason}.") from error
        finally:
            connection.end()

    def _body(self, response: http.client.HTTPResponse, deadline: float) -> bytes:
        most, size = self.settings.picture_bytes, 0
        parts: list[bytes] = []
        while chunk := response.read1(CHUNK):
            size += len(chunk)
            if size > most:
                raise Refused(413, f"the picture at the address is larger than {most / (1 << 20):g} MB.")
            parts.append(chunk)
        if time.monotonic() >= deadline:  # it was cut off: what there is may not be all
            raise TimeoutError
        return b"".join(parts)


class _Pinned(http.client.HTTPConnection):
    """A connection to an address that was checked, under the name that it was looked up by."""

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
        # A drop every second would outlive any timeout of a single read.
        self._timer = threading.Timer(left, self._cut, (self.sock,))
        self._timer.daemon = True
        self._timer.start()

    def end(self) -> None:
        """Close for good; `close` is also called while an answer is still being read."""
        if self._timer is not None:
            self._timer.cancel()
        self.close()

    @staticmethod
    def _cut(connected: socket.socket) -> None:
        with suppress(OSError):
            connected.shutdown(socket.SHUT_RDWR)


def _allowed(entry: str) -> tuple[str, int | None]:
    """Read one host, or host:port, of the list."""
    try:
        split = urlsplit(f"//{entry.strip()}")
        host, port = split.hostname, split.port
    except ValueError:
        host, port = None, None
    if not host or split.path or split.query or split.username or "*" in entry:
        raise InputError(f"--fetch-from takes a host such as images.example.org or host:port; given {entry!r}.")
    return host.rstrip("."), port
