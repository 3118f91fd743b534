"""Kill a process that steps sessions, again and again, and compare with sessions that were never stopped.

    python tools/kill_sessions.py [--kills 500] [--seed S] [--folder DIR]

Every event of a session follows from its number, so an undisturbed twin can be brought to the same number. After each
kill -9: no answered event may be missing, every session must open, and its state, its monitor and its classes must be
the twin's, bit by bit.
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
from cosmic_tta.session import Session
from cosmic_tta.store import Store
from cosmic_tta.synthetic import superclass_pack

METHODS = ("bayes_means", "cosmic", "cosmic@official", "tda", "dmn")
PACK = superclass_pack(4, images=400, superclasses=3, members=3, views=2, dim=16, aux_dim=12)
SAMPLES = [PACK.sample(index) for index in range(len(PACK))]
ROUND = 60  # events after which the plan begins anew


def plan(number: int) -> str:
    """Return what the event with a number is."""
    turns = {
        7: "label",
        10: "add",
        13: "pause",
        17: "resume",
        20: "remove",
        45: "roll back",
        50: "without",
        55: "label",
    }
    return "reset" if number % 240 == 239 else turns.get(number % ROUND, "step")


def source(number: int) -> str | None:
    return "bad" if 46 <= number % ROUND < 50 else ("good", None)[number % 2]


def changed(session: Session, *, add: bool) -> Task:
    task = session.task
    if not add:
        return replace(task, class_names=task.class_names[:-1], text=task.text[:-1])
    extra = np.eye(1, task.dim, 3, dtype=np.float32)
    return replace(task, class_names=(*task.class_names, "extra"), text=np.concatenate([task.text, extra]))


def settle(session: Session) -> None:
    """What is no event, and belongs to a number: the snapshot that a later one rolls back to."""
    if session.number % ROUND == 30 and not any(one.number == session.number for one in session.snapshots()):
        session.snapshot("for later")
        for one in session.snapshots():
            if one.note and one.number < session.number:
                session.drop_snapshot(one.id)
    elif session.number % ROUND == 30 and not next(o for o in session.snapshots() if o.number == session.number).note:
        session.snapshot("for later")


def advance(session: Session, most: int) -> None:
    """Do the next event, or some if they are all steps."""
    settle(session)
    number = session.number + 1
    kind = plan(number)
    if kind == "step":
        block: list[int] = []
        while len(block) < most and plan(number + len(block)) == "step":
            block.append(number + len(block))
            if block[-1] % ROUND == 30:
                break
        samples: list[Sample] = [SAMPLES[one % len(SAMPLES)] for one in block]
        session.step(samples, sources=[source(one) for one in block], tags=[f"picture {one}" for one in block])
    elif kind == "label":
        last = next(session.monitor.recent())
        session.label(last.number, session.task.class_names[number % 9])
    elif kind in ("add", "remove"):
        session.change_classes(changed(session, add=kind == "add"))
    elif kind == "roll back":
        session.roll_back(next(one.id for one in session.snapshots() if one.note))
    elif kind == "without":
        session.without("bad")
    else:
        {"pause": session.pause, "resume": session.resume, "reset": session.reset}[kind]()


def work(folder: Path, seed: int, out: int) -> None:
    """Step the sessions of a store until killed; tell each number once it was answered."""
    chance = random.Random(seed)
    store = Store(folder)
    store.open_all()
    sessions = sorted(store.sessions().items())
    while True:
        key, session = chance.choice(sessions)
        advance(session, chance.randint(1, 6))
        os.write(out, f"{key} {session.number}\n".encode())


def killed(folder: Path, seed: int, after: float) -> dict[str, int]:
    """Let a process work for a while, kill it, and return the last number of each session that was answered."""
    come, go = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(come)
            work(folder, seed, go)
        except BaseException as error:
            os.write(go, f"failed {type(error).__name__}: {error}\n".encode())
        finally:
            os._exit(1)
    os.close(go)
    if after > 0.1:  # at work; else maybe still opening
        select.select([come], [], [], 30)
    time.sleep(after)
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    with os.fdopen(come) as lines:
        told = lines.read().splitlines()
    if not os.WIFSIGNALED(status) or any(line.startswith("failed") for line in told):
        sys.exit(f"the process ended by itself (seed {seed}): {told[-1:]}")
    return {line.split()[0]: int(line.split()[1]) for line in told if len(line.split()) == 2}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--folder", type=Path, default=None)
    given = parser.parse_args()
    seed = given.seed if given.seed is not None else random.SystemRandom().randrange(1 << 30)
    chance = random.Random(seed)
    root = Path(tempfile.mkdtemp(prefix="kill-sessions-", dir=given.folder))
    quick = Path("/dev/shm") if os.access("/dev/shm", os.W_OK) else root
    twins_folder = Path(tempfile.mkdtemp(prefix="kill-sessions-twins-", dir=quick))
    began = time.monotonic()
    answered = lost = torn = moved = fallen = 0
    try:
        twins: dict[str, Session] = {}
        with Store(root / "store") as store:
            for number, spec in enumerate(METHODS):
                method, policy = make_method(spec), ("always", "everysec")[number % 2]
                key = store.create(f"{spec} {number}", PACK.task(), method, policy=policy, keep=3, every=25)  # type: ignore[arg-type]
                twins[key] = Session.create(
                    twins_folder / key, f"{spec} {number}", PACK.task(), method, policy="everysec", keep=3, every=25
                )
        for kill in range(1, given.kills + 1):
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
                    moved += session.number > twin.number
                    torn += any("never answered" in warning for warning in session.warnings)
                    fallen += len(list(session.folder.glob("*.damaged")))
                    while twin.number < session.number:
                        advance(twin, 1)
                    if twin.number != session.number or twin.digest() != session.digest():
                        sys.exit(f"kill {kill}: {twin.name} differs at event {session.number} (seed {seed})")
            if kill % 50 == 0 or kill == given.kills:
                events = sum(twin.number for twin in twins.values())
                print(
                    f"{kill} kills, {events} events of {len(twins)} sessions, {answered} of them answered in time: "
                    f"{lost} lost, 0 that do not open, 0 that differ; {torn} torn tails cut off, {fallen} snapshots "
                    f"laid aside; {time.monotonic() - began:.0f} s (seed {seed})",
                    flush=True,
                )
        for twin in twins.values():
            twin.close()
        if lost or not moved:
            sys.exit(f"{lost} answered events were lost (seed {seed})" if lost else "nothing was ever stepped")
    finally:
        shutil.rmtree(root, ignore_errors=True)
        shutil.rmtree(twins_folder, ignore_errors=True)


if __name__ == "__main__":
    main()
