"""`cosmic serve`."""

from __future__ import annotations

import ipaddress
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from cosmic_tta.commands.options import Address, Engine, on_ray
from cosmic_tta.errors import InputError
from cosmic_tta.pictures import MAX_PIXELS
from cosmic_tta.terminal import say

HERE = "127.0.0.1"


def serve(
    data: Annotated[Path, typer.Option(metavar="DIR", help="Where streams are kept; made if it is not there.")] = Path(
        "cosmic-data"
    ),
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Where to listen; another than this needs a token.")
    ] = HERE,
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 is any that is free.")] = 8765,
    token_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A file with the token that every request must bring.")
    ] = None,
    encoder: Annotated[
        list[str] | None,
        typer.Option(metavar="FAMILY:MODEL", help="An encoder that streams may use, beside the mini pair; repeatable."),
    ] = None,
    policy: Annotated[
        str, typer.Option(metavar="POLICY", help="When answered steps are on disk: always, or everysec.")
    ] = "always",
    batch: Annotated[int, typer.Option(help="Pictures encoded at once.")] = 32,
    wait_ms: Annotated[float, typer.Option(help="How long a picture waits for others to be encoded with.")] = 4.0,
    queue: Annotated[int, typer.Option(help="Requests that may wait for one stream; more are told to come back.")] = 64,
    workers: Annotated[int, typer.Option(help="Processes that decode pictures.")] = 2,
    threads: Annotated[int | None, typer.Option(help="Of each encoder; its library's own choice if left out.")] = None,
    max_pixels: Annotated[int, typer.Option(help="Larger pictures are refused before they are decoded.")] = MAX_PIXELS,
    fetch_from: Annotated[
        list[str] | None,
        typer.Option(metavar="HOST", help="A host that pictures may be fetched from by address; repeatable."),
    ] = None,
    engine: Engine = "local",
    address: Address = None,
    log: Annotated[bool, typer.Option("--log", help="Write a line for each request to stderr.")] = False,
) -> None:
    """Serve adaptation streams over HTTP; what was answered is on disk, and comes back after a crash."""
    from cosmic_tta.service import require

    require()
    remote = on_ray(engine, address)
    from cosmic_tta.service.access import read_token
    from cosmic_tta.service.fetching import Fetcher
    from cosmic_tta.service.running import listening, run
    from cosmic_tta.service.settings import Settings
    from cosmic_tta.store import Store
    from cosmic_tta.towers import task_with_tower

    if token_file is None and not _is_here(host):
        raise InputError(
            f"--host {host} would let other machines in, so a token is needed: --token-file FILE. Make one: "
            "python -c 'import secrets; print(secrets.token_urlsafe())' > FILE."
        )
    plain = Settings()
    settings = Settings(
        encoders=tuple(dict.fromkeys([*plain.encoders, *(encoder or [])])),
        threads=threads,
        policy=policy,  # type: ignore[arg-type]  # refused there if it is no policy
        batch=batch,
        wait_ms=wait_ms,
        queue=queue,
        workers=workers,
        max_pixels=max_pixels,
        fetch_from=tuple(fetch_from or ()),
        token="" if token_file is None else read_token(token_file),
    )
    Fetcher(settings)  # a host that is none is told now
    bound = listening(host, port)
    try:
        named = f"[{host}]" if ":" in host else host
        started = partial(say, f"Serving the streams in {data} at http://{named}:{bound.getsockname()[1]}")
        if remote:
            from cosmic_tta.scale import serving

            serving.run(data.absolute(), settings, bound, address, started, log=log)
        else:
            store = Store(data, task_with_tower)
            started()
            run(store, settings, bound, log=log)
    finally:
        bound.close()


def _is_here(host: str) -> bool:
    """Tell whether an address is of this machine alone; a name but localhost may be anything."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
