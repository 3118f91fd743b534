"""Kill a process that steps sessions many times, and compare with sessions that were never stopped.

    python tools/kill_sessions.py [--kills 500] [--seed S] [--folder DIR]

Every event of a session follows from its number, so an undisturbed twin can be stepped to the same number. After each
kill -9, no answered event may be missing and every session must open. Its state, its monitor and its classes must
equal the twin's, bit by bit.
"""

from __future__ import annotations

import argparse
import os
import random
import select
import shutil
import signal
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from cosmic_tta import Sample, Task, make_method
from cosmic_tta.features.synthetic import superclass_pack
from cosmic_tta.sessions.session import Session
from cosmic_tta.sessions.store import Store

METHODS = ("bayes_means", "cosmic", "cosmic@official", "tda", "dmn")
PACK = superclass_pack(4, images=400, superclasses=3, members=3, views=2, dim=16, aux_dim=12)
SAMPLES = [PACK.sample(index) for index in range(len(PACK))]
ROUND = 60  # events after which the plan repeats


def plan(number: int) -> str:
    """Return the kind of the event with a number."""
    special = {
        7: "label",
        10: "add",
        13: "pause",
        17: "resume",
        20: "remove",
        45: "roll back",
        50: "forget source",
        55: "label",
    }
    return "reset" if number % 240 == 239 else special.get(number % ROUND, "step")


def source(number: int) -> str | None:
    return "bad" if 46 <= number % ROUND < 50 else ("good", None)[number % 2]


def changed(session: Session, *, add: bool) -> Task:
    task = session.task
    if not add:
        return replace(task, class_names=task.class_names[:-1], text=task.text[:-1])
    extra = np.eye(1, task.dim, 3, dtype=np.float32)
    return replace(task, class_names=(*task.class_names, "extra"), text=np.concatenate([task.text, extra]))


def take_note(session: Session) -> None:
    """Write the snapshot that a later event rolls back to; it is no event, but belongs to a number."""
    if session.number % ROUND == 30 and not any(one.number == session.number for one in session.snapshots()):
        session.snapshot("for later")
        for one in session.snapshots():
            if one.note and one.number < session.number:
                session.drop_snapshot(one.id)
    elif session.number % ROUND == 30 and not next(o for o in session.snapshots() if o.number == session.number).note:
        session.snapshot("for later")


def advance(session: Session, limit: int) -> None:
    """Do the next event, or the next few if they are all steps."""
    take_note(session)
    number = session.number + 1
    kind = plan(number)
    if kind == "step":
        block: list[int] = []
        while len(block) < limit and plan(number + len(block)) == "step":
            block.append(number + len(block))
            if block[-1] % ROUND == 30:
                break
        samples: list[Sample] = [SAMPLES[one % len(SAMPLES)] for one in block]
        session.step(samples, sources=[source(one) for one in block], tags=[f"image {one}" for one in block])
    elif kind == "label":
        last = next(session.monitor.recent())
        session.label(last.number, session.task.class_names[number % 9])
    elif kind in ("add", "remove"):
        session.change_classes(changed(session, add=kind == "add"))
    elif kind == "roll back":
        session.roll_back(next(one.id for one in session.snapshots() if one.note))
    elif kind == "forget source":
        session.forget_source("bad")
    else:
        {"pause": session.pause, "resume": session.resume, "reset": session.reset}[kind]()


def work(folder: Path, seed: int, out: int) -> None:
    """Step the sessions of a store until killed; report each number once it was answered."""
    chance = random.Random(seed)
    store = Store(folder)
    store.open_all()
    sessions = sorted(store.sessions().items())
    while True:
        key, session = chance.choice(sessions)
        assert isinstance(session, Session)
        advance(session, chance.randint(1, 6))
        os.write(out, f"{key} {session.number}\n".encode())


def killed(folder: Path, seed: int, after: float) -> dict[str, int]:
    """Let a process work for a while, kill it, and return the last number of each session that was answered."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            work(folder, seed, writing)
        except BaseException as error:
            os.write(writing, f"failed {type(error).__name__}: {error}\n".encode())
        finally:
            os._exit(1)
    os.close(writing)
    if after > 0.1:  # at work; else maybe still opening
        select.select([reading], [], [], 30)
    time.sleep(after)
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    with os.fdopen(reading) as lines:
        reported = lines.read().splitlines()
    if not os.WIFSIGNALED(status) or any(line.startswith("failed") for line in reported):
        sys.exit(f"the process ended by itself (seed {seed}): {reported[-1:]}")
    return {line.split()[0]: int(line.split()[1]) for line in reported if len(line.split()) == 2}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--folder", type=Path, default=None)
    arguments = parser.parse_args()
    seed = arguments.seed if arguments.seed is not None else random.SystemRandom().randrange(1 << 30)
    chance = random.Random(seed)
    root = Path(tempfile.mkdtemp(prefix="kill-sessions-", dir=arguments.folder))
    in_memory = Path("/dev/shm") if os.access("/dev/shm", os.W_OK) else root
    twins_folder = Path(tempfile.mkdtemp(prefix="kill-sessions-twins-", dir=in_memory))
    began = time.monotonic()
    answered = lost = torn = advanced = quarantined = 0
    try:
        twins: dict[str, Session] = {}
        with Store(root / "store") as store:
            for number, spec in enumerate(METHODS):
                method, policy = make_method(spec), ("always", "everysec")[number % 2]
                key = store.create(f"{spec} {number}", PACK.task(), method, policy=policy, keep=3, every=25)  # type: ignore[arg-type]
                twins[key] = Session.create(
                    twins_folder / key, f"{spec} {number}", PACK.task(), method, policy="everysec", keep=3, every=25
                )
        for kill in range(1, arguments.kills + 1):
            acknowledged = killed(root / "store", chance.randrange(1 << 30), chance.uniform(0.002, 0.25))
            with Store(root / "store") as store:
                store.open_all()
                for key, problem in store.damaged().items():
                    sys.exit(f"kill {kill}: {twins[key].name} does not open: {problem} (seed {seed})")
                for key, session in store.sessions().items():
                    twin = twins[key]
                    if session.number < acknowledged.get(key, 0):
                        lost += acknowledged[key] - session.number
                    answered += max(0, acknowledged.get(key, twin.number) - twin.number)
                    advanced += session.number > twin.number
                    torn += any("never answered" in warning for warning in session.warnings)
                    quarantined += len(list(session.folder.glob("*.damaged")))
                    while twin.number < session.number:
                        advance(twin, 1)
                    if twin.number != session.number or twin.digest() != session.digest():
                        sys.exit(f"kill {kill}: {twin.name} differs at event {session.number} (seed {seed})")
            if kill % 50 == 0 or kill == arguments.kills:
                events = sum(twin.number for twin in twins.values())
                print(
                    f"{kill} kills, {events} events of {len(twins)} sessions, {answered} of them answered in time: "
                    f"{lost} lost, 0 that do not open, 0 that differ; {torn} torn tails cut off, "
                    f"{quarantined} snapshots quarantined; {time.monotonic() - began:.0f} s (seed {seed})",
                    flush=True,
                )
        for twin in twins.values():
            twin.close()
        if lost or not advanced:
            sys.exit(f"{lost} answered events were lost (seed {seed})" if lost else "nothing was ever stepped")
    finally:
        shutil.rmtree(root, ignore_errors=True)
        shutil.rmtree(twins_folder, ignore_errors=True)


if __name__ == "__main__":
    main()
