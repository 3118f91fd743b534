"""A name for weights that is the same on any machine."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

LENGTH = 32  # hexadecimal digits: 128 bits tell weights apart


def fingerprint(tensors: Mapping[str, Any]) -> str:
    """Hash tensors on the CPU by name, type, shape and bytes; the order in which they come does not count."""
    names = sorted(tensors)
    with ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as pool:  # hashing lets other threads run
        digests = list(pool.map(lambda name: _digest(tensors[name]), names))
    return _joined(names, digests)


def file_fingerprint(files: Mapping[str, Path]) -> str:
    """Hash files by name and bytes."""
    names = sorted(files)
    digests = []
    for name in names:
        with open(files[name], "rb") as file:
            digests.append(hashlib.file_digest(file, "sha256").digest())
    return _joined(names, digests)


def _digest(tensor: Any) -> bytes:
    import torch

    made = hashlib.sha256()  # twice as fast as BLAKE2 where the processor helps
    made.update(f"{tensor.dtype} {list(tensor.shape)} ".removeprefix("torch.").encode())
    made.update(tensor.reshape(-1).view(torch.uint8).numpy())  # NumPy knows no bfloat16
    return made.digest()


def _joined(names: list[str], digests: list[bytes]) -> str:
    whole = hashlib.sha256()
    for name, digest in zip(names, digests, strict=True):
        whole.update(name.encode() + b"\0" + digest)
    return whole.hexdigest()[:LENGTH]
