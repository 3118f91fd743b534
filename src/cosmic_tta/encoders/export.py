"""An encoder that torch runs, as a folder that ONNX Runtime runs: the writer of the `onnx:` family.

Mean, standard deviation and the unit length of features lie inside the graphs: pixels in, unit rows out. The batch may
have any size. With int8 the matrices are quantised dynamically, a channel of the output at a time; convolutions stay as
they are, so a ResNet gains little.
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

from cosmic_tta.encoders import make_encoder
from cosmic_tta.encoders.base import Options
from cosmic_tta.encoders.clip_tokenizer import ClipTokenizer
from cosmic_tta.encoders.file_tokenizer import FILES, FileTokenizer
from cosmic_tta.encoders.onnx import FORMAT, HEAD, IMAGE, TEXT, OnnxClip, fingerprint_of
from cosmic_tta.encoders.onnx import load as load_onnx
from cosmic_tta.encoders.specimens import pictures, sentences
from cosmic_tta.encoders.torch_towers import TorchClip, TorchEncoder
from cosmic_tta.errors import EncoderError, InputError

OPSET = 20
OPSETS = range(18, 24)
ONE_FILE = 1_800_000_000  # bytes; a larger graph does not fit into one file
FAITHFUL = 0.999  # a float32 graph whose cosine to torch is less is refused


@dataclass(frozen=True)
class Agreement:
    """Cosines of the graph's features to torch's in float32."""

    mean: float
    worst: float


@dataclass(frozen=True)
class Export:
    """What was written, and how near it is to what torch computes."""

    folder: str
    source: str
    precision: str
    opset: int
    megabytes: float
    image: Agreement
    text: Agreement | None
    remark: str = ""

    def described(self) -> dict[str, Any]:
        """Return it as JSON can hold it."""
        return asdict(self)


def export_onnx(spec: str, out: str | os.PathLike[str], *, int8: bool = False, opset: int = OPSET) -> Export:
    """Export an encoder to a new folder, which appears whole or not at all, and compare the two.

    Args:
        spec: an encoder that torch runs, as `make_encoder` takes it.
        out: the folder to be made.
        int8: quantise the matrices.
        opset: version of ONNX's operators.
    """
    folder = Path(out)
    if opset not in OPSETS:
        raise InputError(f"--opset must lie between {OPSETS[0]} and {OPSETS[-1]}; given {opset}.")
    if folder.exists():
        raise InputError(f"{str(folder)!r} is there already; remove it or choose another folder.")
    encoder = make_encoder(spec, device="cpu", dtype="float32")
    if not isinstance(encoder, TorchEncoder):
        raise EncoderError(f"{spec} is no encoder that torch runs; it cannot be exported.")
    clip = encoder if isinstance(encoder, TorchClip) else None
    tokenizer = clip.tokenizer if clip and isinstance(clip.tokenizer, (ClipTokenizer, FileTokenizer)) else None
    with _unfinished(folder) as made:
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
            "preprocessing": encoder.preprocessing.described(),
            "logit_scale": clip.logit_scale if clip and tokenizer else None,
            "text": _told(tokenizer) if tokenizer else None,
            "fingerprint": fingerprint_of(made),
            "source": {"name": spec, "fingerprint": encoder.fingerprint, "torch": torch.__version__, "opset": opset},
        }
        (made / HEAD).write_text(json.dumps(head, indent=1, ensure_ascii=False), encoding="utf-8")
        report = _compared(encoder, spec, made, folder, int8, opset)
        if not int8 and min(report.image.worst, report.text.worst if report.text else 1.0) < FAITHFUL:
            raise EncoderError(f"{spec}: the graph does not compute what torch does ({report.image}, {report.text}).")
    return report


@contextmanager
def _unfinished(folder: Path) -> Iterator[Path]:
    """Give a folder to write to that takes its name when all is done."""
    made = folder.with_name(f".{folder.name}.{os.getpid()}.unfinished")
    made.mkdir(parents=True)
    try:
        yield made
        made.rename(folder)
    except BaseException:
        shutil.rmtree(made, ignore_errors=True)
        raise


def _write(tower: nn.Module, example: Tensor, file: Path, given: str, names: list[str], opset: int, int8: bool) -> None:
    size = sum(value.numel() * value.element_size() for value in tower.state_dict().values())
    if int8 and size > ONE_FILE:
        raise EncoderError(f"{size / 1e9:.1f} GB of weights cannot be quantised in one file; export without --int8.")
    with _quiet(), torch.no_grad():
        try:
            program = torch.onnx.export(
                tower,
                (example,),
                dynamo=True,
                opset_version=opset,
                input_names=[given],
                output_names=names,
                dynamic_shapes=({0: torch.export.Dim("batch", min=1, max=65_536)},),
                verbose=False,
            )
        except Exception as error:  # whatever the exporter does not know
            raise EncoderError(f"torch {torch.__version__} cannot export it: {error!s:.300}") from error
    if program is None:
        raise EncoderError(f"torch {torch.__version__} exported nothing.")
    if int8:
        _quantise(program.model_proto, file)
    else:
        program.save(file, external_data=size > ONE_FILE)


def _quantise(graph: Any, file: Path) -> None:
    """Write a graph with its matrices in int8."""
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    # Shapes that the exporter noted contradict those that the quantiser infers for a ViT; it finds them anew.
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
            # Seven bits: a processor without VNNI would overflow its 16-bit sums with eight.
            reduce_range=True,
            weight_type=QuantType.QInt8,
        )
    plain.unlink()


def _unshare(graph: Any) -> None:
    """Give every Gemm a weight of its own: the quantiser transposes it in place, whoever else reads it."""
    weights = {weight.name: weight for weight in graph.initializer}
    for place, node in enumerate(node for node in graph.node if node.op_type == "Gemm"):
        if node.input[1] in weights:
            copy = graph.initializer.add()
            copy.CopyFrom(weights[node.input[1]])
            copy.name = node.input[1] = f"{copy.name}.gemm{place}"


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep the exporter's and the quantiser's talk of their own parts off the terminal."""
    before = logging.root.manager.disable
    logging.disable(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            yield
        finally:
            logging.disable(before)


def _told(tokenizer: ClipTokenizer | FileTokenizer) -> dict[str, Any]:
    return {"tokenizer": tokenizer.kind, "context": tokenizer.context, "pad": tokenizer.pad}


def _copy_tokenizer(tokenizer: ClipTokenizer | FileTokenizer, target: Path) -> None:
    for name in FILES:
        source = None if tokenizer.folder is None else tokenizer.folder / name
        if source is not None and source.is_file():
            shutil.copyfile(source, target / name)


def _compared(encoder: TorchEncoder, spec: str, made: Path, folder: Path, int8: bool, opset: int) -> Export:
    exported = load_onnx(str(made), None, Options(device="cpu"))
    pixels = np.stack([encoder.preprocessing.pixels(picture) for picture in pictures()])
    text, remark = None, ""
    if isinstance(encoder, TorchClip):
        if isinstance(exported, OnnxClip):
            text = _agreement(exported.encode_texts(sentences()), encoder.encode_texts(sentences()))
        else:
            remark = "Its tokenizer is no file, so the picture tower alone was exported."
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
