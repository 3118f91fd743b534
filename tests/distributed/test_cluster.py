"""A running cluster, joined by its address: the results are the same, and it continues afterwards."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cosmic_tta.features.synthetic import superclass_pack
from tests.distributed.test_sweep import untimed_reports
from tests.support.small_extraction import contents
from tests.support.tiny import class_folders

pytestmark = [pytest.mark.scale, pytest.mark.usefixtures("ray_here")]


@pytest.fixture(scope="module")
def running() -> Iterator[Any]:
    from ray.cluster_utils import Cluster

    store = {"num_cpus": 1, "object_store_memory": 80_000_000}
    cluster = Cluster(initialize_head=True, head_node_args=store | {"include_dashboard": False})
    cluster.add_node(**store)
    yield cluster
    cluster.shutdown()


def cosmic(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "cosmic_tta", *words], capture_output=True, text=True, timeout=300, check=False
    )


def is_running(cluster: Any) -> bool:
    return bool(cluster.list_all_nodes()) and all(
        process.process.poll() is None
        for node in cluster.list_all_nodes()
        for processes in node.all_processes.values()
        for process in processes
    )


def test_an_extraction_joins_by_address(running: Any, tmp_path: Path) -> None:
    root = class_folders(tmp_path / "images", ("bird", "cat", "ship"), 12)
    words = ["extract", str(root), "--clip", "mini:clip", "--aux", "mini:dino", "--views", "4", "--batch", "8"]
    local = cosmic(*words, "--out", str(tmp_path / "local"))
    on_ray = cosmic(*words, "--out", str(tmp_path / "ray"), "--engine", "ray", "--address", running.address)
    assert (local.returncode, on_ray.returncode) == (0, 0), on_ray.stderr
    assert contents(tmp_path / "ray") == contents(tmp_path / "local")
    assert is_running(running)


def test_a_sweep_joins_by_address(running: Any, tmp_path: Path) -> None:
    superclass_pack(3, images=100, dim=64, aux_dim=48, views=4).write(tmp_path / "pack")
    (tmp_path / "grid.toml").write_text('packs = ["pack"]\nmethods = ["zero_shot", "bayes_means"]\nseeds = [0, 1, 2]\n')
    words = ["sweep", str(tmp_path / "grid.toml")]
    local = cosmic(*words, "--out", str(tmp_path / "local"))
    on_ray = cosmic(*words, "--out", str(tmp_path / "ray"), "--engine", "ray", "--address", running.address)
    assert (local.returncode, on_ray.returncode) == (0, 0), on_ray.stderr
    assert len(untimed_reports(tmp_path / "local")) == 6
    assert untimed_reports(tmp_path / "ray") == untimed_reports(tmp_path / "local")
    assert is_running(running)
    again = cosmic(*words, "--out", str(tmp_path / "ray"), "--engine", "ray", "--address", running.address)
    assert "6 were there before" in again.stdout


def test_an_address_where_no_process_listens_is_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "grid.toml").write_text('packs = ["pack"]\nmethods = ["zero_shot"]\n')
    superclass_pack(3, images=20, dim=64, aux_dim=48, views=4).write(tmp_path / "pack")
    with socket.socket() as unused:  # bound, but not listening
        unused.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unused.getsockname()[1]}"
        done = cosmic(
            "sweep", str(tmp_path / "grid.toml"), "--out", str(tmp_path), "--engine", "ray", "--address", address
        )
    assert done.returncode == 2
    assert f"no Ray cluster at '{address}': no process listens there" in done.stderr.replace("\n", " ")
    assert "Traceback" not in done.stderr
