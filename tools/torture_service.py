"""Trials of the service at full length, against servers of its own.

python tools/torture_service.py kills [--count 500] [--seed S]      killed under load, compared after every restart
python tools/torture_service.py load [--clients 64] [--requests 200] [--streams 8]
python tools/torture_service.py pictures [--count 10000] [--seed S] spoiled pictures: no 5xx, memory, state
python tools/torture_service.py description [--seconds 300]         schemathesis, every route
python tools/torture_service.py soak [--seconds 600]                memory, flat after the first fifth
"""

from __future__ import annotations

import argparse
import random
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
import service_trials
from serving import Running, wanted

MOST_MB, MOST_GROWTH = 300.0, 0.05
TOKEN = "a-token-for-the-description"


def say(sentence: str) -> None:
    print(sentence, flush=True)


def kills(folder: Path, given: argparse.Namespace) -> dict[str, Any]:
    return service_trials.kills(folder, given.count or 500, seed=given.seed, say=say)


def load(folder: Path, given: argparse.Namespace) -> dict[str, Any]:
    with Running(folder / "data") as running:
        running.client()
        told: dict[str, Any] = service_trials.load(running.url, given.clients, given.requests, given.streams)
        assert running.stop() == ""
    return told


def pictures(folder: Path, given: argparse.Namespace) -> dict[str, Any]:
    with Running(folder / "data") as running:
        told = service_trials.flooded(running, given.count or 10_000, given.seed, say)
        assert running.stop() == ""
    assert told["grown_mb"] < MOST_MB, told
    return told


def description(folder: Path, given: argparse.Namespace) -> dict[str, Any]:
    (folder / "token").write_text(TOKEN)
    with Running(folder / "data", "--token-file", str(folder / "token")) as running:
        running.client(TOKEN).create(**wanted("harbour"))
        seconds = given.seconds or 300
        told = service_trials.by_description(
            running.url, TOKEN, folder, examples=given.count or 100, seconds=seconds, seed=given.seed
        )
        assert "Traceback" not in running.complaints()
    return {"seconds": seconds, "told": told.strip().splitlines()[-1].strip("= ")}


def soak(folder: Path, given: argparse.Namespace) -> dict[str, Any]:
    with Running(folder / "data") as running:
        told = service_trials.soak(running, given.seconds or 600, say)
        assert running.stop() == ""
    assert told["growth"] < MOST_GROWTH, told
    return told


TRIALS = {trial.__name__: trial for trial in (kills, load, pictures, description, soak)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trial", choices=TRIALS)
    for name, default in (("count", 0), ("clients", 64), ("requests", 200), ("streams", 8), ("seconds", 0)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--seed", type=int, default=None)
    given = parser.parse_args()
    if given.seed is None:
        given.seed = random.SystemRandom().randrange(1 << 30)
    with service_trials.temporary() as folder:
        told = TRIALS[given.trial](Path(folder), given)
    figures = ", ".join(
        f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}" for name, value in told.items()
    )
    say(f"{given.trial} (seed {given.seed}): {figures}")


if __name__ == "__main__":
    main()
