"""A slow encoder on Ray Serve with more batches than it can take, told as JSON; a process of its own, for the tests."""

from __future__ import annotations

import json
import threading
import time

import numpy as np
from numpy.typing import NDArray

from cosmic_tta.encoders import make_clip
from cosmic_tta.scale import serving
from cosmic_tta.scale.cluster import cluster

SECONDS = 90.0  # within which there should be more replicas


class Slow(serving.Replica):
    """One that takes its time."""

    def encode(self, pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
        time.sleep(0.5)
        return super().encode(pixels)


def running() -> int:
    """Replicas of the encoder that run now."""
    from ray import serve

    deployments = [one for app in serve.status().applications.values() for one in app.deployments.values()]
    return sum(int(one.replica_states.get("RUNNING", 0)) for one in deployments)


def main() -> None:
    from ray import serve

    serving.Replica = Slow  # type: ignore[misc]
    with cluster(cores=4):
        serve.start(http_options={"location": "NoServer"})
        encoder = serving.load_there("mini:clip", "clip", 1)
        side = encoder.preprocessing.size
        pixels = np.random.default_rng(0).integers(256, size=(2, *side, 3), dtype=np.uint8)
        wanted = make_clip("mini:clip", threads=1).encode(pixels)
        before, most, equal, end = running(), 0, [], time.monotonic() + SECONDS

        def ask() -> None:
            while most < 3 and time.monotonic() < end:
                equal.append(bool((encoder.encode(pixels) == wanted).all()))

        clients = [threading.Thread(target=ask) for _ in range(12)]
        for client in clients:
            client.start()
        while most < 3 and time.monotonic() < end:
            most = max(most, running())
            time.sleep(0.2)
        for client in clients:
            client.join()
        print(json.dumps({"before": before, "most": most, "asked": len(equal), "equal": all(equal)}))


if __name__ == "__main__":
    main()
