"""Long trials of the service, against servers that this program starts.

python tools/torture_service.py kills [--count 500] [--seed S]      kill under load, compare after every restart
python tools/torture_service.py load [--clients 64] [--requests 200] [--streams 8]
python tools/torture_service.py images [--count 10000] [--seed S]   corrupted images: no 5xx, bounded memory, same state
python tools/torture_service.py conformance [--seconds 300]         schemathesis on every route
python tools/torture_service.py soak [--seconds 600]                memory stays flat after the first fifth
"""

from __future__ import annotations

import argparse
import random
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from tests.support import service_trials
from tests.support.serving import Running, wanted

MAX_GROWTH_MB, MAX_GROWTH = 300.0, 0.05
TOKEN = "a-token-for-the-conformance"


def report(sentence: str) -> None:
    print(sentence, flush=True)


def kills(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    return service_trials.kills(folder, options.count or 500, seed=options.seed, say=report)


def load(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    with Running(folder / "data") as running:
        running.client()
        result: dict[str, Any] = service_trials.load(running.url, options.clients, options.requests, options.streams)
        assert running.stop() == ""
    return result


def images(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    with Running(folder / "data") as running:
        result = service_trials.corrupted(running, options.count or 10_000, options.seed, report)
        assert running.stop() == ""
    assert result["grown_mb"] < MAX_GROWTH_MB, result
    return result


def conformance(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    (folder / "token").write_text(TOKEN)
    with Running(folder / "data", "--token-file", str(folder / "token")) as running:
        running.client(TOKEN).create(**wanted("harbour"))
        seconds = options.seconds or 300
        output = service_trials.conformance(
            running.url, TOKEN, folder, examples=options.count or 100, seconds=seconds, seed=options.seed
        )
        assert "Traceback" not in running.stderr()
    return {"seconds": seconds, "report": output.strip().splitlines()[-1].strip("= ")}


def soak(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    with Running(folder / "data") as running:
        result = service_trials.soak(running, options.seconds or 600, report)
        assert running.stop() == ""
    assert result["growth"] < MAX_GROWTH, result
    return result


TRIALS = {trial.__name__: trial for trial in (kills, load, images, conformance, soak)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trial", choices=TRIALS)
    for name, default in (("count", 0), ("clients", 64), ("requests", 200), ("streams", 8), ("seconds", 0)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--seed", type=int, default=None)
    options = parser.parse_args()
    if options.seed is None:
        options.seed = random.SystemRandom().randrange(1 << 30)
    with TemporaryDirectory(prefix="cosmic-trial-") as folder:
        result = TRIALS[options.trial](Path(folder), options)
    figures = ", ".join(
        f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}" for name, value in result.items()
    )
    report(f"{options.trial} (seed {options.seed}): {figures}")


if __name__ == "__main__":
    main()
