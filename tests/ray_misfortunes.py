"""Extractions on Ray in which something goes wrong each time, told as JSON; a process of its own, for the tests."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from cosmic_tta.datasets import open_source
from cosmic_tta.encoders import make_clip, make_encoder
from cosmic_tta.errors import CosmicError
from cosmic_tta.extract import Work
from cosmic_tta.loading import Recipe
from cosmic_tta.scale.cluster import cluster
from cosmic_tta.scale.extracting import OnRay
from cosmic_tta.views import Views

EACH = 2  # pictures a chunk
CHUNKS = 40


class Deadly(int):
    """A batch size that ends the process that counts with it: an encoder's."""

    def __rmod__(self, other: int) -> NoReturn:
        die()


class DeadlyName(str):
    """A fingerprint that ends the process that compares with it: an encoder's, before its first chunk."""

    __hash__ = str.__hash__

    def __ne__(self, other: object) -> NoReturn:
        die()


class Slow(int):
    """A batch size that takes its time."""

    def __rmod__(self, other: int) -> int:
        time.sleep(0.1)
        return other % int(self)


def die() -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("alive")


def stumble() -> NoReturn:
    raise ZeroDivisionError("one over none")


def noted(read: Callable[[], Any], log: Path) -> Any:
    with open(log, "a") as file:
        file.write(".")
    return read()


def main(root: str, scratch: str) -> None:
    log = Path(scratch) / "read"
    items = open_source(root).items[: EACH * CHUNKS]
    clip, aux = make_clip("mini:clip"), make_encoder("mini:dino", kind="image")
    recipe = Recipe(Views(8), clip.preprocessing, aux.preprocessing)
    good = Work(items, recipe, EACH, 16, clip.fingerprint, aux.fingerprint)
    wrong = {
        "an encoder dies": replace(good, batch=Deadly(16)),
        "an encoder dies at its start": replace(good, clip=DeadlyName(clip.fingerprint)),
        "a reader dies": replace(good, items=(replace(items[0], read=die), *items[1:])),
        "a reader stumbles": replace(good, items=(replace(items[0], read=stumble), *items[1:])),
        "an encoder stumbles": replace(good, batch=0),
        "other weights": replace(good, aux="others"),
    }
    told: dict[str, Any] = {}
    with cluster(cores=1):
        for name, work in wrong.items():
            try:
                told[name] = len(list(OnRay("mini:clip", "mini:dino", actors=1).chunks(work, [0])))
            except CosmicError as error:
                told[name] = f"{type(error).__name__}: {error}"
        slow = replace(good, items=[replace(item, read=partial(noted, item.read, log)) for item in items])
        engine, ahead = OnRay("mini:clip", "mini:dino", actors=1), []
        for done, _ in enumerate(engine.chunks(replace(slow, batch=Slow(16)), range(CHUNKS)), 1):
            ahead.append(len(log.read_text()) / EACH - done)
        told |= {"chunks": len(ahead), "ahead": max(ahead), "waited": engine.waited}
    print(json.dumps(told))


if __name__ == "__main__":
    main(*sys.argv[1:])
