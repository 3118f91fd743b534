"""Tokens: read from a file, generated per stream, stored as hashes, compared in constant time."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Mapping
from pathlib import Path

from cosmic_tta.core.errors import InputError
from cosmic_tta.service.errors import Problem

MIN_TOKEN_LENGTH = 16
SCHEME = "bearer"


def read_token(file: Path) -> str:
    """Read the server's token from a file.

    Args:
        file: a file with one token of at least 16 printable ASCII characters.

    Returns:
        The token, without the line end.

    Raises:
        InputError: the file cannot be read, or does not hold one such token.
    """
    try:
        text = file.read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not plain ASCII"
        raise InputError(f"the token cannot be read from {str(file)!r}: {reason}.") from error
    token = text.strip()
    if len(token) < MIN_TOKEN_LENGTH or not token.isprintable() or " " in token or "\n" in token:
        raise InputError(
            f"{str(file)!r} must hold one token of at least {MIN_TOKEN_LENGTH} characters without blanks. Make one: "
            "python -c 'import secrets; print(secrets.token_urlsafe())'."
        )
    return token


def new_token() -> str:
    """Generate a random token for one stream."""
    return secrets.token_urlsafe(24)


def hash_token(token: str) -> str:
    """Return the hash of a token. Tokens are long and random, so no salt is needed."""
    return hashlib.sha256(token.encode()).hexdigest()


def bearer_token(headers: Mapping[str, str]) -> str:
    """Return the token of a request, or an empty string."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == SCHEME else ""


def check_token(given: str, server_token: str, stream_hash: str = "") -> None:
    """Accept the server's token and, for a stream that has its own token, that one too.

    Args:
        given: the token of the request.
        server_token: the server's token; empty if it has none.
        stream_hash: the hash of the stream's own token; empty if it has none.

    Raises:
        Problem: a token is needed, and the given one is not accepted (401).
    """
    accepted = [hash_token(server_token)] if server_token else []
    accepted += [stream_hash] if stream_hash else []
    if not accepted:
        return
    given_hash = hash_token(given)
    # Every comparison runs, each in constant time, so that the duration reveals nothing.
    matches = [hmac.compare_digest(given_hash, one) for one in accepted]
    if not any(matches):
        detail = "this path needs a token." if not given else "the token is not valid for this path."
        raise Problem(401, detail, headers={"WWW-Authenticate": "Bearer"})
