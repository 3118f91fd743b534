"""`onnx:`: a folder that `cosmic export-onnx` wrote, run by ONNX Runtime; torch is not needed.

`encoder.json` describes the graphs. `image.onnx` takes eight-bit pixels [B, height, width, 3] and gives unit features
and unit patch tokens; `text.onnx` (of a CLIP) takes token numbers. The files of the tokenizer are in the same folder.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from cosmic_tta.core.errors import EncoderError
from cosmic_tta.data.images.preprocess import Preprocessing
from cosmic_tta.encoders.base import TEXT_BATCH, Encoder, EncoderOptions, Tokens, checked_pixels, checked_texts
from cosmic_tta.encoders.fingerprint import file_fingerprint
from cosmic_tta.encoders.tokenizers.clip import ClipTokenizer
from cosmic_tta.encoders.tokenizers.hf_file import FileTokenizer
from cosmic_tta.encoders.tokenizers.words import WordTokenizer

FORMAT = 1
HEAD = "encoder.json"
IMAGE, TEXT = "image.onnx", "text.onnx"
ERRORS_ONLY = 3  # log level of ONNX Runtime
Tokenizer = ClipTokenizer | FileTokenizer | WordTokenizer
TOKENIZERS: dict[str, Callable[[Path, int], Tokenizer]] = {
    "clip": ClipTokenizer.read,
    "file": FileTokenizer,
    "words": WordTokenizer,
}


def load(path: str, _: str | None, options: EncoderOptions) -> Encoder:
    """Load an exported encoder from its folder."""
    if options.dtype not in ("auto", "float32"):
        raise EncoderError(
            f"dtype {options.dtype!r} cannot be chosen for ONNX graphs: their type is fixed when they are exported."
        )
    folder = Path(path).expanduser()
    head = _read_head(folder)
    preprocessing = _preprocessing(head, folder)
    if fingerprint_of(folder) != head["fingerprint"]:
        raise EncoderError(
            f"the graphs in {str(folder)!r} are damaged or not those that {HEAD} describes; export them again."
        )
    image = _session(folder / IMAGE, options)
    text = head.get("text")
    if text is None or options.kind == "image":
        return OnnxEncoder(head, preprocessing, image, _device(options))
    kind = str(text.get("tokenizer"))
    if kind not in TOKENIZERS:
        known = ", ".join(map(repr, TOKENIZERS))
        raise EncoderError(f"{str(folder / HEAD)!r}: the tokenizer must be one of {known}; given {kind!r}.")
    tokenizer = TOKENIZERS[kind](folder, int(text["context"]))
    return OnnxClip(head, preprocessing, image, _device(options), _session(folder / TEXT, options), tokenizer)


class OnnxEncoder:
    """Encodes images with ONNX Runtime."""

    def __init__(self, head: dict[str, Any], preprocessing: Preprocessing, image: Any, device: str) -> None:
        self.name, self.dim, self.fingerprint = "", int(head["dim"]), str(head["fingerprint"])
        self.preprocessing, self.device, self._image = preprocessing, device, image

    def encode(self, pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Encode [B, height, width, 3] as unit rows [B, dim]."""
        pixels = checked_pixels(pixels, self.preprocessing)
        if not len(pixels):
            return np.empty((0, self.dim), np.float32)
        features: NDArray[np.float32] = self._image.run(["features"], {"pixels": pixels})[0]
        return features

    def tokens(self, pixels: NDArray[np.uint8]) -> Tokens:
        """Return the class tokens (or pooled features) and the grids of patch tokens of [B, height, width, 3]."""
        pixels = checked_pixels(pixels, self.preprocessing)
        return Tokens(*self._image.run(["features", "patches"], {"pixels": pixels}))


class OnnxClip(OnnxEncoder):
    """Encodes images and sentences with ONNX Runtime."""

    def __init__(
        self,
        head: dict[str, Any],
        preprocessing: Preprocessing,
        image: Any,
        device: str,
        text: Any,
        tokenizer: Tokenizer,
    ) -> None:
        super().__init__(head, preprocessing, image, device)
        self.logit_scale, self._text, self.tokenizer = float(head["logit_scale"]), text, tokenizer

    def encode_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Encode sentences as unit rows [T, dim]."""
        ids = self.tokenizer(checked_texts(texts))
        starts = range(0, len(ids), TEXT_BATCH)
        blocks = [self._text.run(["features"], {"ids": ids[start : start + TEXT_BATCH]})[0] for start in starts]
        return np.concatenate([np.empty((0, self.dim), np.float32), *blocks])


def fingerprint_of(folder: Path) -> str:
    """Hash the graphs of a folder, and weights in files of their own."""
    return file_fingerprint({file.name: file for file in folder.glob("*.onnx*")})


def _read_head(folder: Path) -> dict[str, Any]:
    file = folder / HEAD
    if not folder.is_dir():
        raise EncoderError(f"there is no folder {str(folder)!r}; make one: cosmic export-onnx SPEC --out {folder}.")
    try:
        head = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise EncoderError(f"{str(folder)!r} has no {HEAD}: it was not written by cosmic export-onnx.") from error
    except (OSError, ValueError) as error:
        raise EncoderError(f"{str(file)!r} cannot be read as JSON: {error}") from error
    if not isinstance(head, dict) or head.get("format") != FORMAT:
        given = head.get("format") if isinstance(head, dict) else None
        raise EncoderError(f"{str(file)!r} has the format {given!r}; this version reads format {FORMAT}.")
    wanted = {"dim": int, "preprocessing": dict, "fingerprint": str}
    text = head.get("text")
    if text is not None:
        wanted["logit_scale"] = float
    for key, kind in wanted.items():
        if not isinstance(head.get(key), kind):
            raise EncoderError(f"{str(file)!r}: {key!r} must be a {kind.__name__}; given {head.get(key)!r:.60}.")
    if text is not None and not (isinstance(text, dict) and isinstance(text.get("context"), int)):
        raise EncoderError(f"{str(file)!r}: 'text' must be null, or say tokenizer and context; given {text!r:.60}.")
    for name in (IMAGE,) if text is None else (IMAGE, TEXT):
        if not (folder / name).is_file():
            raise EncoderError(f"{str(folder / name)!r} is missing, although {HEAD} names it; export it again.")
    return head


def _preprocessing(head: dict[str, Any], folder: Path) -> Preprocessing:
    try:
        return Preprocessing.from_dict(head["preprocessing"])
    except (TypeError, ValueError) as error:
        raise EncoderError(f"{str(folder / HEAD)!r}: its preprocessing is invalid: {error}.") from error


def _device(options: EncoderOptions) -> str:
    available = {"cpu": True, "cuda": "CUDAExecutionProvider" in onnxruntime.get_available_providers(), "mps": False}
    if options.device == "auto":
        return "cuda" if available["cuda"] else "cpu"
    if not available[options.device]:
        found = ", ".join(name for name, present in available.items() if present)
        raise EncoderError(f"device {options.device!r} is not available: this ONNX Runtime runs on {found}.")
    return options.device


def _session(file: Path, options: EncoderOptions) -> Any:
    """Open a graph. Operators run one after the other, so that the same batch gives the same bits."""
    settings = onnxruntime.SessionOptions()
    settings.log_severity_level = ERRORS_ONLY
    settings.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    settings.use_deterministic_compute = True
    if options.threads is not None:
        settings.intra_op_num_threads = options.threads
    providers = {"cpu": ["CPUExecutionProvider"], "cuda": ["CUDAExecutionProvider", "CPUExecutionProvider"]}
    try:
        return onnxruntime.InferenceSession(str(file), settings, providers=providers[_device(options)])
    except EncoderError:
        raise
    except Exception as error:  # the runtime's errors have no common base class
        raise EncoderError(
            f"{str(file)!r} cannot be run by ONNX Runtime {onnxruntime.__version__}: {error!s:.300}"
        ) from error
