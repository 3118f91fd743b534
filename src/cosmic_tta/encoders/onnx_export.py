"""Export of an encoder that torch runs to a folder of the `onnx:` family.

The graphs contain the normalisation of pixels and features: they take pixels and give unit rows, for any batch size.
With int8 the matrices are quantised dynamically, per output channel. Convolutions are not quantised, so a ResNet
becomes little faster.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from cosmic_tta.core.errors import EncoderError, InputError
from cosmic_tta.core.files import new_folder
from cosmic_tta.encoders.base import EncoderOptions
from cosmic_tta.encoders.onnx import FORMAT, HEAD, IMAGE, TEXT, OnnxClip, fingerprint_of
from cosmic_tta.encoders.onnx import load as load_onnx
from cosmic_tta.encoders.onnx_samples import sample_images, sample_sentences
from cosmic_tta.encoders.registry import make_encoder
from cosmic_tta.encoders.tokenizers.clip import ClipTokenizer
from cosmic_tta.encoders.tokenizers.hf_file import FILES, FileTokenizer
from cosmic_tta.encoders.torch_encoder import TorchClip, TorchEncoder

OPSET = 20
OPSETS = range(18, 24)
MAX_FILE_BYTES = 1_800_000_000  # a larger graph does not fit into one file
MIN_COSINE = 0.999  # of a float32 graph's features to torch's


@dataclass(frozen=True)
class Agreement:
    """Cosines of the graph's features to torch's in float32."""

    mean: float
    worst: float


@dataclass(frozen=True)
class Export:
    """The exported folder, and how similar its features are to those of torch."""

    folder: str
    source: str
    precision: str
    opset: int
    megabytes: float
    image: Agreement
    text: Agreement | None
    remark: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as values for JSON."""
        return asdict(self)


def export_onnx(spec: str, out: str | os.PathLike[str], *, int8: bool = False, opset: int = OPSET) -> Export:
    """Export an encoder to a new folder, and compare its features with those of torch.

    Args:
        spec: An encoder that torch runs, as `make_encoder` takes it.
        out: The new folder. After an error it does not exist.
        int8: Quantise the matrices.
        opset: Version of ONNX's operators.

    Raises:
        InputError: The folder exists, or the opset is out of range.
        EncoderError: The encoder cannot be exported, or its graph computes something else.
    """
    folder = Path(out)
    if opset not in OPSETS:
        raise InputError(f"--opset must lie between {OPSETS[0]} and {OPSETS[-1]}; given {opset}.")
    if folder.exists():
        raise InputError(f"{str(folder)!r} is there already; remove it or choose another folder.")
    encoder = make_encoder(spec, device="cpu", dtype="float32")
    if not isinstance(encoder, TorchEncoder):
        raise EncoderError(f"{spec} is not an encoder that torch runs; it cannot be exported.")
    clip = encoder if isinstance(encoder, TorchClip) else None
    tokenizer = clip.tokenizer if clip and isinstance(clip.tokenizer, (ClipTokenizer, FileTokenizer)) else None
    with new_folder(folder) as made:
        height, width = encoder.preprocessing.size
        example = torch.zeros(2, height, width, 3, dtype=torch.uint8)
        _write(encoder.image, example, made / IMAGE, "pixels", ["features", "patches"], opset, int8)
        if clip and tokenizer:
            ids = torch.from_numpy(tokenizer(["a", "b"]))
            _write(clip.text, ids, made / TEXT, "ids", ["features"], opset, int8)
            _copy_tokenizer(tokenizer, made)
        head = {
            "format": FORMAT,
            "dim": encoder.dim,
            "precision": "int8" if int8 else "fp32",
            "preprocessing": encoder.preprocessing.to_dict(),
            "logit_scale": clip.logit_scale if clip and tokenizer else None,
            "text": _tokenizer_settings(tokenizer) if tokenizer else None,
            "fingerprint": fingerprint_of(made),
            "source": {"name": spec, "fingerprint": encoder.fingerprint, "torch": torch.__version__, "opset": opset},
        }
        (made / HEAD).write_text(json.dumps(head, indent=1, ensure_ascii=False), encoding="utf-8")
        report = _compare(encoder, spec, made, folder, int8, opset)
        if not int8 and min(report.image.worst, report.text.worst if report.text else 1.0) < MIN_COSINE:
            raise EncoderError(f"{spec}: the graph does not compute what torch does ({report.image}, {report.text}).")
    return report


def _write(
    tower: nn.Module, example: Tensor, file: Path, input_name: str, names: list[str], opset: int, int8: bool
) -> None:
    size = sum(value.numel() * value.element_size() for value in tower.state_dict().values())
    if int8 and size > MAX_FILE_BYTES:
        raise EncoderError(f"{size / 1e9:.1f} GB of weights cannot be quantised in one file; export without --int8.")
    with _quiet(), torch.no_grad():
        try:
            program = torch.onnx.export(
                tower,
                (example,),
                dynamo=True,
                opset_version=opset,
                input_names=[input_name],
                output_names=names,
                dynamic_shapes=({0: torch.export.Dim("batch", min=1, max=65_536)},),
                verbose=False,
            )
        except Exception as error:  # the exporter raises many kinds of errors
            raise EncoderError(f"torch {torch.__version__} cannot export it: {error!s:.300}") from error
    if program is None:
        raise EncoderError(f"torch {torch.__version__} exported nothing.")
    if int8:
        _quantise(program.model_proto, file)
    else:
        program.save(file, external_data=size > MAX_FILE_BYTES)


def _quantise(graph: Any, file: Path) -> None:
    """Write a graph with its matrices in int8."""
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    # The exporter's shapes contradict those that the quantiser infers for a ViT; without them it infers all.
    del graph.graph.value_info[:]
    _unshare(graph.graph)
    plain = file.with_name("plain.unfinished")
    onnx.save(graph, plain)
    with _quiet():
        quantize_dynamic(
            plain,
            file,
            op_types_to_quantize=["MatMul", "Gemm"],
            per_channel=True,
            # Seven bits: with eight, the 16-bit sums of a processor without VNNI would overflow.
            reduce_range=True,
            weight_type=QuantType.QInt8,
        )
    plain.unlink()


def _unshare(graph: Any) -> None:
    """Give every Gemm its own weight: the quantiser transposes it in place, even if other nodes read it."""
    weights = {weight.name: weight for weight in graph.initializer}
    for number, node in enumerate(node for node in graph.node if node.op_type == "Gemm"):
        if node.input[1] in weights:
            copy = graph.initializer.add()
            copy.CopyFrom(weights[node.input[1]])
            copy.name = node.input[1] = f"{copy.name}.gemm{number}"


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppress the warnings and log messages of the exporter and the quantiser."""
    before = logging.root.manager.disable
    logging.disable(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            yield
        finally:
            logging.disable(before)


def _tokenizer_settings(tokenizer: ClipTokenizer | FileTokenizer) -> dict[str, Any]:
    return {"tokenizer": tokenizer.kind, "context": tokenizer.context, "pad": tokenizer.pad}


def _copy_tokenizer(tokenizer: ClipTokenizer | FileTokenizer, target: Path) -> None:
    for name in FILES:
        source = None if tokenizer.folder is None else tokenizer.folder / name
        if source is not None and source.is_file():
            shutil.copyfile(source, target / name)


def _compare(encoder: TorchEncoder, spec: str, made: Path, folder: Path, int8: bool, opset: int) -> Export:
    exported = load_onnx(str(made), None, EncoderOptions(device="cpu"))
    pixels = np.stack([encoder.preprocessing.pixels(image) for image in sample_images()])
    text, remark = None, ""
    if isinstance(encoder, TorchClip):
        if isinstance(exported, OnnxClip):
            text = _agreement(exported.encode_texts(sample_sentences()), encoder.encode_texts(sample_sentences()))
        else:
            remark = "Its tokenizer is not a file, so only the image tower was exported."
    return Export(
        folder=str(folder),
        source=spec,
        precision="int8" if int8 else "fp32",
        opset=opset,
        megabytes=round(sum(file.stat().st_size for file in made.iterdir()) / 1e6, 1),
        image=_agreement(exported.encode(pixels), encoder.encode(pixels)),
        text=text,
        remark=remark,
    )


def _agreement(rows: NDArray[np.float32], others: NDArray[np.float32]) -> Agreement:
    cosines = (rows * others).sum(-1)
    return Agreement(float(cosines.mean()), float(cosines.min()))
