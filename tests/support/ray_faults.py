"""Run extractions on Ray with a lasting fault each, and print their errors as JSON. A program for the tests."""

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

from cosmic_tta.core.errors import CosmicError
from cosmic_tta.data.datasets import open_source
from cosmic_tta.data.images.augment import RandomViews
from cosmic_tta.distributed.cluster import connect_cluster
from cosmic_tta.distributed.extraction import RayEngine
from cosmic_tta.encoders import make_clip, make_encoder
from cosmic_tta.features.extraction.loader import ImagePipeline
from cosmic_tta.features.extraction.plan import ExtractionPlan

CHUNK_SIZE = 2  # images
CHUNKS = 40


class DeadlyBatch(int):
    """A batch size that kills the process that computes with it: an encoder."""

    def __rmod__(self, other: int) -> NoReturn:
        die()


class DeadlyFingerprint(str):
    """A fingerprint that kills the process that compares it: an encoder, before its first chunk."""

    __hash__ = str.__hash__

    def __ne__(self, other: object) -> NoReturn:
        die()


class SlowBatch(int):
    """A batch size that makes the encoder slow."""

    def __rmod__(self, other: int) -> int:
        time.sleep(0.1)
        return other % int(self)


def die() -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("alive")


def fail() -> NoReturn:
    raise ZeroDivisionError("a fault")


def logged_read(read: Callable[[], Any], log: Path) -> Any:
    with open(log, "a") as file:
        file.write(".")
    return read()


def main(root: str, scratch: str) -> None:
    log = Path(scratch) / "read"
    items = open_source(root).items[: CHUNK_SIZE * CHUNKS]
    clip, aux = make_clip("mini:clip"), make_encoder("mini:dino", kind="image")
    pipeline = ImagePipeline(RandomViews(8), clip.preprocessing, aux.preprocessing)
    plan = ExtractionPlan(items, pipeline, CHUNK_SIZE, 16, clip.fingerprint, aux.fingerprint)
    faulty = {
        "an encoder dies": replace(plan, batch=DeadlyBatch(16)),
        "an encoder dies at its start": replace(plan, clip_fingerprint=DeadlyFingerprint(clip.fingerprint)),
        "a decoder dies": replace(plan, items=(replace(items[0], read=die), *items[1:])),
        "a decoder fails": replace(plan, items=(replace(items[0], read=fail), *items[1:])),
        "an encoder fails": replace(plan, batch=0),
        "other weights": replace(plan, aux_fingerprint="others"),
    }
    results: dict[str, Any] = {}
    with connect_cluster(cores=1):
        for name, faulty_plan in faulty.items():
            try:
                results[name] = len(list(RayEngine("mini:clip", "mini:dino", actors=1).chunks(faulty_plan, [0])))
            except CosmicError as error:
                results[name] = f"{type(error).__name__}: {error}"
        logged = replace(plan, items=[replace(item, read=partial(logged_read, item.read, log)) for item in items])
        engine, ahead = RayEngine("mini:clip", "mini:dino", actors=1), []
        for done, _ in enumerate(engine.chunks(replace(logged, batch=SlowBatch(16)), range(CHUNKS)), 1):
            ahead.append(len(log.read_text()) / CHUNK_SIZE - done)
        results |= {"chunks": len(ahead), "ahead": max(ahead), "waited": engine.waited}
    print(json.dumps(results))


if __name__ == "__main__":
    main(*sys.argv[1:])
