"""A process that decodes pictures for the service: frames in on stdin, frames out on stdout, until stdin ends.

A frame is two lengths, a JSON head and a body. The process has little memory and an alarm of its own, so that one
picture can neither fill the machine nor outlive the server.
"""

from __future__ import annotations

import json
import signal
import struct
import sys
import warnings
from typing import Any, BinaryIO

from cosmic_tta.errors import CosmicError
from cosmic_tta.pictures import open_picture
from cosmic_tta.preprocessing import Preprocessing
from cosmic_tta.views import Views

LENGTHS = struct.Struct("<II")
MEMORY = 2 << 30  # of addresses; a picture of 25 megapixels takes some 400 MB on its way


def frame(head: dict[str, Any], body: bytes = b"") -> bytes:
    """Put a head and a body into one run of bytes."""
    text = json.dumps(head).encode()
    return LENGTHS.pack(len(text), len(body)) + text + body


def prepared(head: dict[str, Any], data: bytes) -> bytes:
    """Decode one picture and cut its views, or tell what is wrong with it."""
    clip = Preprocessing.from_described(head["clip"])
    aux = None if head["aux"] is None else Preprocessing.from_described(head["aux"])
    try:
        picture = open_picture(data, max_pixels=head["max_pixels"], name=head["name"])
        views = Views(**head["views"]).of(picture, head["key"], clip)
        plain = b"" if aux is None else aux.pixels(picture).tobytes()
    except CosmicError as error:
        return frame({"problem": str(error)})
    except MemoryError:
        return frame({"problem": f"{head['name']}: takes more memory than a picture may."})
    return frame({"clip": list(views.shape)}, views.tobytes() + plain)


def serve(source: BinaryIO, sink: BinaryIO) -> None:
    """Say that we are here, then answer frames until there are no more."""
    sink.write(frame({}))
    sink.flush()
    while lengths := source.read(LENGTHS.size):
        told, size = LENGTHS.unpack(lengths)
        head, data = json.loads(source.read(told)), source.read(size)
        signal.alarm(int(head["seconds"]) + 2)  # should the server be gone and unable to end us
        answer = prepared(head, data)
        signal.alarm(0)
        sink.write(answer)
        sink.flush()


def main() -> None:
    """Serve the process that started us."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    warnings.simplefilter("ignore")
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    except (ImportError, ValueError, OSError):
        pass  # a system without such bounds
    serve(sys.stdin.buffer, sys.stdout.buffer)


if __name__ == "__main__":
    main()
