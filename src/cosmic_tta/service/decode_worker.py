"""A process that decodes images for the service: it reads frames from stdin and writes frames to stdout.

A frame is two lengths, a JSON header and a body. The process limits its own memory and sets an alarm per image, so
that one image can neither fill the machine nor outlive the server.
"""

from __future__ import annotations

import json
import signal
import struct
import sys
import warnings
from typing import Any, BinaryIO

from cosmic_tta.core.errors import CosmicError
from cosmic_tta.data.images.augment import RandomViews
from cosmic_tta.data.images.decode import open_image
from cosmic_tta.data.images.preprocess import Preprocessing

LENGTHS = struct.Struct("<II")  # of the header and of the body
MAX_MEMORY = 2 << 30  # bytes of address space; an image of 25 megapixels needs about 400 MB
ALARM_MARGIN = 2  # seconds after the server's own timeout


def pack_frame(header: dict[str, Any], body: bytes = b"") -> bytes:
    """Return a header and a body as one frame."""
    text = json.dumps(header).encode()
    return LENGTHS.pack(len(text), len(body)) + text + body


def decode_frame(header: dict[str, Any], data: bytes) -> bytes:
    """Decode one image and cut its views. The returned frame has the pixels, or a `problem`."""
    clip = Preprocessing.from_dict(header["clip"])
    aux = None if header["aux"] is None else Preprocessing.from_dict(header["aux"])
    try:
        image = open_image(data, max_pixels=header["max_pixels"], name=header["name"])
        views = RandomViews(**header["views"]).of(image, header["key"], clip)
        aux_pixels = b"" if aux is None else aux.pixels(image).tobytes()
    except CosmicError as error:
        return pack_frame({"problem": str(error)})
    except MemoryError:
        return pack_frame({"problem": f"{header['name']}: needs more memory than one image may use."})
    return pack_frame({"clip": list(views.shape)}, views.tobytes() + aux_pixels)


def serve(source: BinaryIO, sink: BinaryIO) -> None:
    """Send an empty frame as a sign of readiness, then answer frames until the source ends."""
    sink.write(pack_frame({}))
    sink.flush()
    while lengths := source.read(LENGTHS.size):
        header_size, body_size = LENGTHS.unpack(lengths)
        header, data = json.loads(source.read(header_size)), source.read(body_size)
        signal.alarm(int(header["seconds"]) + ALARM_MARGIN)  # ends this process if the server is gone
        answer = decode_frame(header, data)
        signal.alarm(0)
        sink.write(answer)
        sink.flush()


def main() -> None:
    """Answer the process that started this one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    warnings.simplefilter("ignore")
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY, MAX_MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    except (ImportError, ValueError, OSError):
        pass  # this system has no such limits
    serve(sys.stdin.buffer, sys.stdout.buffer)


if __name__ == "__main__":
    main()
