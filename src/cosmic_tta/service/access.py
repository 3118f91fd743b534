"""Who may come in: tokens, compared in constant time and kept as hashes."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Mapping
from pathlib import Path

from cosmic_tta.errors import InputError
from cosmic_tta.service.refusals import Refused

LEAST = 16  # characters of a token
SCHEME = "bearer"


def read_token(file: Path) -> str:
    """Read the server's token from a file: its first line, of at least 16 visible ASCII characters."""
    try:
        text = file.read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not plain ASCII"
        raise InputError(f"the token cannot be read from {str(file)!r}: {reason}.") from error
    token = text.strip()
    if len(token) < LEAST or not token.isprintable() or " " in token or "\n" in token:
        raise InputError(
            f"{str(file)!r} must hold one token of at least {LEAST} characters without blanks; make one: "
            "python -c 'import secrets; print(secrets.token_urlsafe())'."
        )
    return token


def new_token() -> str:
    """Draw a token for one stream."""
    return secrets.token_urlsafe(24)


def hashed(token: str) -> str:
    """Return what is kept of a token. It is random and long, so that no salt is needed."""
    return hashlib.sha256(token.encode()).hexdigest()


def bearer(headers: Mapping[str, str]) -> str:
    """Return the token of a request, empty where there is none."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == SCHEME else ""


def check(given: str, server: str, stream_hash: str = "") -> None:
    """Let a request pass that holds the server's token or, if it is for a stream with one, the stream's.

    `server` is the server's token; empty: none is asked for, but a stream's own still counts for that stream.
    """
    wanted = [hashed(server)] if server else []
    wanted += [stream_hash] if stream_hash else []
    if not wanted:
        return
    mine = hashed(given)
    # All are compared, each in constant time, so that the time tells nothing.
    same = [hmac.compare_digest(mine, one) for one in wanted]
    if not any(same):
        what = "a token is needed" if not given else "this token is not the right one"
        raise Refused(401, f"{what} for this address.", headers={"WWW-Authenticate": "Bearer"})
