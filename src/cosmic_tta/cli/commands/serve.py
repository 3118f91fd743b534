"""`cosmic serve`: options → checked settings → server."""

from __future__ import annotations

import ipaddress
import socket
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cosmic_tta.cli.options import Address, Engine, uses_ray
from cosmic_tta.cli.terminal import say
from cosmic_tta.core.errors import InputError
from cosmic_tta.data.images.decode import MAX_PIXELS

if TYPE_CHECKING:
    from cosmic_tta.service.settings import ServiceSettings

LOOPBACK = "127.0.0.1"

Data = Annotated[Path, typer.Option(metavar="DIR", help="Where streams are kept. Created if it is missing.")]
HostAddress = Annotated[
    str, typer.Option(metavar="ADDRESS", help="Where to listen. An address other than loopback needs a token.")
]
Port = Annotated[int, typer.Option(min=0, max=65535, help="0 takes any free port.")]
TokenFile = Annotated[
    Path | None, typer.Option(metavar="FILE", help="A file with the token that every request must send.")
]
EncoderNames = Annotated[
    list[str] | None,
    typer.Option("--encoder", metavar="FAMILY:MODEL", help="An encoder that streams may use. Repeatable."),
]
Policy = Annotated[
    str,
    typer.Option(
        metavar="POLICY", help="When steps are synced: always (before the answer), or everysec (about once a second)."
    ),
]
Batch = Annotated[int, typer.Option(help="Images encoded at once.")]
WaitMs = Annotated[float, typer.Option(help="How long an image waits for others to be encoded with, in ms.")]
Queue = Annotated[int, typer.Option(help="Requests that may wait or run per stream. More get status 429.")]
Workers = Annotated[int, typer.Option(help="Processes that decode images.")]
Threads = Annotated[int | None, typer.Option(help="Threads per encoder. Default: the library's choice.")]
MaxPixels = Annotated[int, typer.Option(help="Refuse larger images before they are decoded.")]
FetchFrom = Annotated[
    list[str] | None,
    typer.Option(metavar="HOST", help="A host that images may be fetched from by URL. Repeatable."),
]
Log = Annotated[bool, typer.Option("--log", help="Write a line per request to stderr.")]


def serve(
    data: Data = Path("cosmic-data"),
    host: HostAddress = LOOPBACK,
    port: Port = 8765,
    token_file: TokenFile = None,
    encoder: EncoderNames = None,
    policy: Policy = "always",
    batch: Batch = 32,
    wait_ms: WaitMs = 4.0,
    queue: Queue = 64,
    workers: Workers = 2,
    threads: Threads = None,
    max_pixels: MaxPixels = MAX_PIXELS,
    fetch_from: FetchFrom = None,
    engine: Engine = "local",
    address: Address = None,
    log: Log = False,
) -> None:
    """Serve adaptation streams over HTTP. Answered steps are on disk and survive a crash."""
    from cosmic_tta.service import require_packages

    require_packages()
    ray = uses_ray(engine, address)
    from cosmic_tta.service.auth import read_token
    from cosmic_tta.service.server import bind_socket
    from cosmic_tta.service.settings import ServiceSettings
    from cosmic_tta.service.url_fetch import UrlFetcher

    _require_token(host, token_file)
    defaults = ServiceSettings()
    settings = ServiceSettings(
        encoders=tuple(dict.fromkeys([*defaults.encoders, *(encoder or [])])),
        encoder_threads=threads,
        sync_policy=policy,  # type: ignore[arg-type]  # the settings refuse an unknown policy
        batch_size=batch,
        batch_wait_ms=wait_ms,
        queue_size=queue,
        decode_workers=workers,
        max_pixels=max_pixels,
        fetch_hosts=tuple(fetch_from or ()),
        token="" if token_file is None else read_token(token_file),
        # The address in the printed URL, which may be another of the loopback addresses.
        allowed_hosts=tuple(dict.fromkeys([*defaults.allowed_hosts, host.lower()])),
    )
    UrlFetcher(settings)  # refuses a wrong host name before the server starts
    with bind_socket(host, port) as bound:
        _serve(data, settings, bound, host, ray=ray, address=address, log=log)


def _serve(
    data: Path,
    settings: ServiceSettings,
    bound: socket.socket,
    host: str,
    *,
    ray: bool,
    address: str | None,
    log: bool,
) -> None:
    url_host = f"[{host}]" if ":" in host else host
    started = partial(say, f"Serving the streams in {data} at http://{url_host}:{bound.getsockname()[1]}")
    if ray:
        from cosmic_tta.distributed.serve_app import serve_on_ray

        serve_on_ray(data.absolute(), settings, bound, address, started, log=log)
        return
    from cosmic_tta.features.text_towers import attach_task_tower
    from cosmic_tta.service.server import run_server
    from cosmic_tta.sessions.store import Store

    store = Store(data, attach_task_tower)
    started()
    run_server(store, settings, bound, log=log)


def _require_token(host: str, token_file: Path | None) -> None:
    if token_file is None and not _is_loopback(host):
        raise InputError(
            f"--host {host} lets other machines connect, so a token is needed: --token-file FILE. Make one: "
            "python -c 'import secrets; print(secrets.token_urlsafe())' > FILE."
        )


def _is_loopback(host: str) -> bool:
    """Return whether only this machine can reach an address. A name other than localhost may be anything."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
