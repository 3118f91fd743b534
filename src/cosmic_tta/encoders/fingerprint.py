"""Hashes of weights, the same on every machine."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

LENGTH = 32  # hexadecimal digits


def fingerprint(tensors: Mapping[str, Any]) -> str:
    """Hash tensors on the CPU by name, type, shape and bytes; their order does not matter."""
    names = sorted(tensors)
    with ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as pool:  # hashing releases the GIL
        digests = list(pool.map(lambda name: _digest(tensors[name]), names))
    return _join(names, digests)


def file_fingerprint(files: Mapping[str, Path]) -> str:
    """Hash files by name and bytes."""
    names = sorted(files)
    digests = []
    for name in names:
        with open(files[name], "rb") as file:
            digests.append(hashlib.file_digest(file, "sha256").digest())
    return _join(names, digests)


def _digest(tensor: Any) -> bytes:
    import torch

    digest = hashlib.sha256()  # most processors have instructions for it
    digest.update(f"{tensor.dtype} {list(tensor.shape)} ".removeprefix("torch.").encode())
    digest.update(tensor.reshape(-1).view(torch.uint8).numpy())  # as bytes: NumPy has no bfloat16
    return digest.digest()


def _join(names: list[str], digests: list[bytes]) -> str:
    joined = hashlib.sha256()
    for name, digest in zip(names, digests, strict=True):
        joined.update(name.encode() + b"\0" + digest)
    return joined.hexdigest()[:LENGTH]
