"""Send a slow encoder on Ray Serve more batches than it can take; print the number of its replicas as JSON.

A program for the tests.
"""

from __future__ import annotations

import json
import threading
import time

import numpy as np
from numpy.typing import NDArray

from cosmic_tta.distributed import serve_app
from cosmic_tta.distributed.cluster import connect_cluster
from cosmic_tta.encoders import make_clip

MAX_SECONDS = 90.0  # in which more replicas must start


class SlowReplica(serve_app.EncoderReplica):
    """A replica that needs half a second per batch."""

    def encode(self, pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
        time.sleep(0.5)
        return super().encode(pixels)


def running_replicas() -> int:
    """Return the number of replicas that run now."""
    from ray import serve

    deployments = [one for app in serve.status().applications.values() for one in app.deployments.values()]
    return sum(int(one.replica_states.get("RUNNING", 0)) for one in deployments)


def main() -> None:
    from ray import serve

    serve_app.EncoderReplica = SlowReplica  # type: ignore[misc]
    with connect_cluster(cores=4):
        serve.start(http_options={"location": "NoServer"})
        encoder = serve_app.load_replicated("mini:clip", "clip", 1)
        size = encoder.preprocessing.size
        pixels = np.random.default_rng(0).integers(256, size=(2, *size, 3), dtype=np.uint8)
        expected = make_clip("mini:clip", threads=1).encode(pixels)
        before, most_replicas, equal, end = running_replicas(), 0, [], time.monotonic() + MAX_SECONDS

        def send_batches() -> None:
            while most_replicas < 3 and time.monotonic() < end:
                equal.append(bool((encoder.encode(pixels) == expected).all()))

        clients = [threading.Thread(target=send_batches) for _ in range(12)]
        for client in clients:
            client.start()
        while most_replicas < 3 and time.monotonic() < end:
            most_replicas = max(most_replicas, running_replicas())
            time.sleep(0.2)
        for client in clients:
            client.join()
        print(json.dumps({"before": before, "most": most_replicas, "batches": len(equal), "equal": all(equal)}))


if __name__ == "__main__":
    main()
