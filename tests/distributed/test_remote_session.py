"""Sessions in actors answer as local ones, and lose no answered step if a process or a node dies."""

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

from cosmic_tta.core.errors import SessionError
from cosmic_tta.sessions.session import Session
from cosmic_tta.sessions.session_info import StepResult
from tests.support.small_session import small_method, small_pack, small_samples

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


def samples_of(stream: int) -> list[Any]:
    samples = small_samples()
    return [samples[(stream * 7 + number) % len(samples)] for number in range(STEPS)]


def create(folder: Path, stream: int, kind: Any) -> Any:
    method = small_method(METHODS[stream % len(METHODS)])
    return kind.create(folder / f"{stream:02}", f"stream {stream}", small_pack().task(), method, every=25)


def is_same(one: StepResult, other: StepResult) -> bool:
    return (one.number, one.learned) == (other.number, other.learned) and np.array_equal(
        one.prediction.scores, other.prediction.scores
    )


def test_twenty_sessions_continue_after_a_node_is_lost(nodes: Any, tmp_path: Path) -> None:
    import ray

    from cosmic_tta.distributed.remote_session import RemoteSession

    second = nodes.add_node(num_cpus=1, object_store_memory=80_000_000)
    nodes.wait_for_nodes()
    remote = tmp_path / "ray"
    remote.mkdir()
    with ThreadPoolExecutor(4) as pool:
        sessions = list(pool.map(lambda number: create(remote, number, RemoteSession), range(STREAMS)))
    head = ray.get_runtime_context().get_node_id()
    before = [session.location for session in sessions]
    lost = [number for number, (node, _) in enumerate(before) if node != head]
    assert 3 <= len(lost) <= STREAMS - 3, "the names do not spread the sessions"

    answers: list[list[StepResult]] = [[] for _ in sessions]
    all_started = threading.Barrier(STREAMS + 1)

    def drive(number: int) -> None:
        for index, sample in enumerate(samples_of(number)):
            if index == 10:
                all_started.wait()
            answers[number] += sessions[number].step([sample])

    with ThreadPoolExecutor(STREAMS) as pool:
        futures = [pool.submit(drive, number) for number in range(STREAMS)]
        all_started.wait()
        nodes.remove_node(second, allow_graceful=False)
        counts = [len(results) for results in answers]
        for future in futures:
            future.result()
    assert any(count < STEPS for count in counts), "the node was removed too late"
    after = [session.location for session in sessions]
    assert all(node == head for node, _ in after)
    assert all(before[number] == after[number] for number in range(STREAMS) if number not in lost)
    digests = [session.digest() for session in sessions]
    for session in sessions:
        session.close()

    local = tmp_path / "local"
    local.mkdir()
    for number in range(STREAMS):
        session = create(local, number, Session)
        expected = [session.step([sample])[0] for sample in samples_of(number)]
        assert len(answers[number]) == STEPS
        assert all(is_same(one, other) for one, other in zip(answers[number], expected, strict=True))
        assert digests[number] == session.digest()
        session.close()
        kept = Session.open(remote / f"{number:02}")
        assert kept.number == STEPS
        assert kept.digest() == digests[number]
        kept.close()


def test_a_step_whose_answer_was_lost_is_answered_again_but_not_learned_twice(nodes: Any, tmp_path: Path) -> None:
    from cosmic_tta.distributed.remote_session import RemoteSession

    session = create(tmp_path, 0, RemoteSession)
    samples = samples_of(0)
    session.step(samples[:4])
    first = session.step(samples[4:7])
    os.kill(session.location[1], signal.SIGKILL)
    session._progress = session._progress._replace(number=4)  # as if the reply had been lost
    time.sleep(0.5)
    second = session.step(samples[4:7])
    assert session.number == 7
    assert all(is_same(one, other) for one, other in zip(first, second, strict=True))
    session.pause()
    assert session.paused
    node, process = session.location
    os.kill(process, signal.SIGKILL)
    time.sleep(0.5)
    assert session.location != (node, process), "the call must start another process"
    os.kill(session.location[1], signal.SIGKILL)
    assert session.peek(samples[:1])[0].scores.shape == (4,)
    assert session.paused
    session.close()
    with pytest.raises(SessionError, match="was closed"):
        session.step(samples[:1])


@pytest.mark.parametrize("name", METHODS)
def test_predictions_have_the_explanations_of_a_local_session(nodes: Any, tmp_path: Path, name: str) -> None:
    from cosmic_tta.distributed.remote_session import RemoteSession

    samples, task = small_samples(), small_pack().task()
    local = Session.create(tmp_path / "local", "local", task, small_method(name))
    remote = RemoteSession.create(tmp_path / "ray", "ray", task, small_method(name))
    for batch in (samples[:1], samples[1:20], samples[20:40]):
        for expected, result in zip(local.step(batch), remote.step(batch), strict=True):
            assert is_same(result, expected)
            assert result.prediction.why == expected.prediction.why
    for one, other in zip(local.peek(samples[40:50]), remote.peek(samples[40:50]), strict=True):
        assert np.array_equal(other.scores, one.scores)
        assert other.why == one.why
    assert other.why.plain(), "nothing was compared"
    local.close()
    remote.close()


def test_an_export_of_a_remote_session_can_be_imported(nodes: Any, tmp_path: Path) -> None:
    from cosmic_tta.distributed.remote_session import RemoteSession

    with create(tmp_path, 0, RemoteSession) as session:
        session.step(samples_of(0)[:5])
        session.export(tmp_path / "exported")
        digest = session.digest()
    with Session.import_(tmp_path / "exported", tmp_path / "imported") as imported:
        assert imported.digest() == digest
