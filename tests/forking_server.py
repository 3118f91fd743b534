"""Starts servers by forking: everything is imported once, so that one can be killed and started many times.

A line on stdin is a data folder; the answer is a line with the process and the address of its server.
"""

from __future__ import annotations

import os
import signal
import sys

from cosmic_tta.service.running import listening, run
from cosmic_tta.service.settings import Settings
from cosmic_tta.store import Store


def main() -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those that were killed
    for line in sys.stdin:
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            bound = listening("127.0.0.1", 0)
            store = Store(line.strip())
            print(os.getpid(), f"http://127.0.0.1:{bound.getsockname()[1]}", flush=True)
            run(store, Settings(), bound)
            os._exit(0)


if __name__ == "__main__":
    main()
