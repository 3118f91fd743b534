"""Streams on two simulated nodes: one is taken away under load, and no answered step is lost or changed."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_session import small_method, small_pack, small_samples

from cosmic_tta.errors import SessionError
from cosmic_tta.session import Answered, Session

pytestmark = [pytest.mark.scale, pytest.mark.usefixtures("ray_here")]
STREAMS, STEPS = 20, 60
METHODS = ("cosmic", "tda", "bayes_means", "dmn")


@pytest.fixture
def nodes() -> Iterator[Any]:
    import ray
    from ray.cluster_utils import Cluster

    head = {"num_cpus": 1, "object_store_memory": 80_000_000}
    cluster = Cluster(initialize_head=True, head_node_args=head | {"include_dashboard": False})
    ray.init(address=cluster.address, log_to_driver=False, logging_level="error")
    yield cluster
    ray.shutdown()
    cluster.shutdown()


def own_samples(stream: int) -> list[Any]:
    samples = small_samples()
    return [samples[(stream * 7 + number) % len(samples)] for number in range(STEPS)]


def create(folder: Path, stream: int, kind: Any) -> Any:
    method = small_method(METHODS[stream % len(METHODS)])
    return kind.create(folder / f"{stream:02}", f"stream {stream}", small_pack().task(), method, every=25)


def same(one: Answered, other: Answered) -> bool:
    return (one.number, one.learned) == (other.number, other.learned) and np.array_equal(
        one.prediction.scores, other.prediction.scores
    )


def test_twenty_streams_outlive_a_node(nodes: Any, tmp_path: Path) -> None:
    import ray

    from cosmic_tta.scale.streaming import DistantSession

    second = nodes.add_node(num_cpus=1, object_store_memory=80_000_000)
    nodes.wait_for_nodes()
    there = tmp_path / "there"
    there.mkdir()
    with ThreadPoolExecutor(4) as pool:
        sessions = list(pool.map(lambda number: create(there, number, DistantSession), range(STREAMS)))
    head = ray.get_runtime_context().get_node_id()
    before = [session.whereabouts for session in sessions]
    lost = [number for number, (node, _) in enumerate(before) if node != head]
    assert 3 <= len(lost) <= STREAMS - 3, "names do not spread the streams"

    answers: list[list[Answered]] = [[] for _ in sessions]
    busy = threading.Barrier(STREAMS + 1)

    def drive(number: int) -> None:
        for place, sample in enumerate(own_samples(number)):
            if place == 10:
                busy.wait()
            answers[number] += sessions[number].step([sample])

    with ThreadPoolExecutor(STREAMS) as pool:
        driven = [pool.submit(drive, number) for number in range(STREAMS)]
        busy.wait()
        nodes.remove_node(second, allow_graceful=False)
        under_way = [len(told) for told in answers]
        for one in driven:
            one.result()
    assert any(count < STEPS for count in under_way), "the node was removed when all was over"
    after = [session.whereabouts for session in sessions]
    assert all(node == head for node, _ in after)
    assert all(before[number] == after[number] for number in range(STREAMS) if number not in lost)
    digests = [session.digest() for session in sessions]
    for session in sessions:
        session.close()

    here = tmp_path / "here"
    here.mkdir()
    for number in range(STREAMS):
        session = create(here, number, Session)
        expected = [session.step([sample])[0] for sample in own_samples(number)]
        assert len(answers[number]) == STEPS
        assert all(same(one, other) for one, other in zip(answers[number], expected, strict=True))
        assert digests[number] == session.digest()
        session.close()
        kept = Session.open(there / f"{number:02}")
        assert kept.number == STEPS
        assert kept.digest() == digests[number]
        kept.close()


def test_a_step_whose_answer_was_lost_is_answered_again_and_not_done_twice(nodes: Any, tmp_path: Path) -> None:
    from cosmic_tta.scale.holding import answered_before
    from cosmic_tta.scale.streaming import DistantSession

    session = create(tmp_path, 0, DistantSession)
    samples = own_samples(0)
    session.step(samples[:4])
    first = session.step(samples[4:7])
    os.kill(session.whereabouts[1], signal.SIGKILL)
    session._far = session._far._replace(number=4)  # as if the answer had never come
    time.sleep(0.5)
    second = session.step(samples[4:7])
    assert session.number == 7
    assert all(same(one, other) for one, other in zip(first, second, strict=True))
    session.pause()
    assert session.paused
    node, process = session.whereabouts
    os.kill(process, signal.SIGKILL)
    time.sleep(0.5)
    assert session.whereabouts != (node, process), "the question itself finds the stream another process"
    os.kill(session.whereabouts[1], signal.SIGKILL)
    assert session.peek(samples[:1])[0].scores.shape == (4,)
    assert session.paused
    session.close()
    with pytest.raises(SessionError, match="was closed"):
        session.step(samples[:1])
    with Session.open(tmp_path / "00") as kept, pytest.raises(SessionError, match="other events after 4"):
        answered_before(kept, 4, samples[:3])
