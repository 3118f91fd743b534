"""A cluster that runs already, joined by its address: the same bits, and it outlives whoever joined."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from small_extraction import contents
from test_scale_sweep import timeless
from tiny import class_folders

from cosmic_tta.synthetic import superclass_pack

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


def outlived(cluster: Any) -> bool:
    return bool(cluster.list_all_nodes()) and all(
        process.process.poll() is None
        for node in cluster.list_all_nodes()
        for processes in node.all_processes.values()
        for process in processes
    )


def test_an_extraction_joins_by_address(running: Any, tmp_path: Path) -> None:
    root = class_folders(tmp_path / "pictures", ("bird", "cat", "ship"), 12)
    words = ["extract", str(root), "--clip", "mini:clip", "--aux", "mini:dino", "--views", "4", "--batch", "8"]
    here = cosmic(*words, "--out", str(tmp_path / "here"))
    there = cosmic(*words, "--out", str(tmp_path / "there"), "--engine", "ray", "--address", running.address)
    assert (here.returncode, there.returncode) == (0, 0), there.stderr
    assert contents(tmp_path / "there") == contents(tmp_path / "here")
    assert outlived(running)


def test_a_sweep_joins_by_address(running: Any, tmp_path: Path) -> None:
    superclass_pack(3, images=100, dim=64, aux_dim=48, views=4).write(tmp_path / "pack")
    (tmp_path / "grid.toml").write_text('packs = ["pack"]\nmethods = ["zero_shot", "bayes_means"]\nseeds = [0, 1, 2]\n')
    words = ["sweep", str(tmp_path / "grid.toml")]
    here = cosmic(*words, "--out", str(tmp_path / "here"))
    there = cosmic(*words, "--out", str(tmp_path / "there"), "--engine", "ray", "--address", running.address)
    assert (here.returncode, there.returncode) == (0, 0), there.stderr
    assert len(timeless(tmp_path / "here")) == 6
    assert timeless(tmp_path / "there") == timeless(tmp_path / "here")
    assert outlived(running)
    again = cosmic(*words, "--out", str(tmp_path / "there"), "--engine", "ray", "--address", running.address)
    assert "6 were done before" in again.stdout


def test_where_nobody_listens_a_command_says_so_at_once(tmp_path: Path) -> None:
    (tmp_path / "grid.toml").write_text('packs = ["pack"]\nmethods = ["zero_shot"]\n')
    superclass_pack(3, images=20, dim=64, aux_dim=48, views=4).write(tmp_path / "pack")
    with socket.socket() as taken:  # bound, but nobody listens
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        told = cosmic(
            "sweep", str(tmp_path / "grid.toml"), "--out", str(tmp_path), "--engine", "ray", "--address", address
        )
    assert told.returncode == 2
    assert f"no Ray cluster at '{address}': nobody listens there" in told.stderr.replace("\n", " ")
    assert "Traceback" not in told.stderr
