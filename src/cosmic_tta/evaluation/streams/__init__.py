"""Streams: in which order the images of a pack arrive in an evaluation.

`orders.py` has one function per kind of stream, `registry.py` their names, `stream.py` the result. Imports `features`
and `core`. The rest of `evaluation` and the packages above it import it.
"""

from cosmic_tta.evaluation.streams.registry import STREAMS, StreamKind, make_stream
from cosmic_tta.evaluation.streams.stream import UNKNOWN, EvaluationStream

__all__ = ["STREAMS", "UNKNOWN", "EvaluationStream", "StreamKind", "make_stream"]
