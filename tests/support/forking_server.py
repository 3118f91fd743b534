"""A process that forks servers. It imports everything once, so that a server can be killed and started many times.

Each line on stdin is a data folder. The answer is a line with the id of the new process and the URL of its server.
"""

from __future__ import annotations

import os
import signal
import sys

from cosmic_tta.service.server import bind_socket, run_server
from cosmic_tta.service.settings import ServiceSettings
from cosmic_tta.sessions.store import Store


def main() -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # killed servers are not waited for
    for line in sys.stdin:
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            bound = bind_socket("127.0.0.1", 0)
            store = Store(line.strip())
            print(os.getpid(), f"http://127.0.0.1:{bound.getsockname()[1]}", flush=True)
            run_server(store, ServiceSettings(), bound)
            os._exit(0)


if __name__ == "__main__":
    main()
