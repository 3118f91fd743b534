"""Write the trained embedded models and the photographs into the package.

`python tools/mini/export.py --data FOLDER --trained FOLDER [--only clip|dino|diffusion|photographs]`

Weights are kept in half precision and computed in float32. The photographs are the first 200 test images of each
class, tiled into one PNG in the order of the test set.
"""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path

import numpy as np
import onnx
import photographs
import torch
import words
from diffusion import Denoiser
from networks import ImageTower
from onnx import TensorProto, helper, numpy_helper
from PIL import Image
from torch import Tensor, nn
from torch.nn import functional
from train import Clip, Dino

from cosmic_tta.data.images.preprocess import Preprocessing
from cosmic_tta.encoders.mini_diffusion import GRAPH
from cosmic_tta.encoders.onnx import FORMAT, HEAD, IMAGE, TEXT, fingerprint_of

PACKAGE = Path(__file__).resolve().parents[2] / "src" / "cosmic_tta"
ENCODERS, PHOTOGRAPHS = "encoders/assets", "data/datasets/assets"  # below the package
PARTS = ("clip", "dino", "diffusion", "photographs")
IMAGES_PER_CLASS, COLUMNS = 200, 50
MIN_HALVED = 512  # values; smaller arrays stay in float32
OPSET = 20
EPSILON = 1e-6  # keeps the direction of an image without any activation defined


class Pixels(nn.Module):
    """Eight-bit pixels [B, 32, 32, 3] to unit features and unit patches."""

    def __init__(self, tower: ImageTower, *, project: bool) -> None:
        super().__init__()
        self.tower, self.project = tower, project

    def forward(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        cells = self.tower.cells(pixels.permute(0, 3, 1, 2).float() / 255).permute(0, 2, 3, 1)  # [B, 4, 4, width]
        cells = cells + EPSILON
        features = cells.mean((1, 2))
        if self.project:
            features, cells = self.tower.project(features), self.tower.project(cells)
        return functional.normalize(features, dim=-1), functional.normalize(cells, dim=-1)


class Sentences(nn.Module):
    """Word numbers [T, MAX_WORDS] to unit features."""

    def __init__(self, tower: nn.Module) -> None:
        super().__init__()
        self.tower = tower

    def forward(self, ids: Tensor) -> Tensor:
        return functional.normalize(self.tower(ids), dim=-1)


def write_graph(tower: nn.Module, file: Path, inputs: dict[str, Tensor], names: list[str]) -> None:
    batch = torch.export.Dim("batch", min=1, max=65_536)
    program = torch.onnx.export(
        tower.eval(),
        tuple(inputs.values()),
        dynamo=True,
        opset_version=OPSET,
        input_names=list(inputs),
        output_names=names,
        dynamic_shapes=tuple({0: batch} for _ in inputs),
        verbose=False,
    )
    if program is None:
        raise RuntimeError("nothing was exported")
    graph = program.model_proto
    halve(graph)
    onnx.save(graph, file)


def halve(model: onnx.ModelProto) -> None:
    """Store large arrays in half precision; a cast node converts each back to float32."""
    graph, casts = model.graph, []
    for weight in graph.initializer:
        values = numpy_helper.to_array(weight)
        if values.dtype != np.float32 or values.size < MIN_HALVED:
            continue
        name = weight.name
        weight.CopyFrom(numpy_helper.from_array(values.astype(np.float16), f"{name}.half"))
        casts.append(helper.make_node("Cast", [f"{name}.half"], [name], to=TensorProto.FLOAT))
    for index, node in enumerate(casts):
        graph.node.insert(index, node)
    del graph.value_info[:]


def write_encoder(folder: Path, model: Clip | Dino) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    clip = model if isinstance(model, Clip) else None
    example = torch.zeros(2, 32, 32, 3, dtype=torch.uint8)
    tower = Pixels(model.image, project=clip is not None)
    write_graph(tower, folder / IMAGE, {"pixels": example}, ["features", "patches"])
    text = None
    if clip is not None:
        write_graph(Sentences(clip.text), folder / TEXT, {"ids": words.plain(clip.known)[:2]}, ["features"])
        vocabulary = {"words": words.vocabulary(), "classes": list(photographs.CLASSES)}
        (folder / "words.json").write_text(json.dumps(vocabulary, indent=1), encoding="utf-8")
        text = {"tokenizer": "words", "context": words.MAX_WORDS, "pad": 0}
    plain = Preprocessing((32, 32), 32, (0.47, 0.47, 0.47), (0.25, 0.25, 0.25))
    head = {
        "format": FORMAT,
        "dim": tower(example)[0].shape[1],
        "precision": "fp16 weights, fp32 arithmetic",
        "preprocessing": plain.to_dict(),
        "logit_scale": None if clip is None else float(clip.log_scale.exp().clamp(max=100)),
        "text": text,
        "fingerprint": fingerprint_of(folder),
        "source": {"name": f"tools/mini/train.py {'clip' if clip else 'dino'}", "torch": torch.__version__},
    }
    (folder / HEAD).write_text(json.dumps(head, indent=1), encoding="utf-8")


def write_diffusion(folder: Path, model: Denoiser) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    inputs = {"noisy": torch.zeros(2, 3, 32, 32), "noise_level": torch.zeros(2)}
    write_graph(model, folder / GRAPH, inputs, ["velocity"])


def write_photographs(folder: Path, data: Path) -> None:
    images, labels = photographs.read(data, "test")
    chosen = torch.cat([(labels == label).nonzero()[:IMAGES_PER_CLASS, 0] for label in range(len(photographs.CLASSES))])
    chosen = chosen.sort().values
    tiles = images[chosen].permute(0, 2, 3, 1).view(-1, COLUMNS, 32, 32, 3).permute(0, 2, 1, 3, 4)
    folder.mkdir(parents=True, exist_ok=True)
    sheet = tiles.reshape(-1, COLUMNS * 32, 3).numpy()
    Image.fromarray(sheet).save(folder / "photographs.png", optimize=True)
    metadata = {"classes": list(photographs.CLASSES), "labels": labels[chosen].tolist()}
    (folder / "photographs.json").write_text(json.dumps(metadata), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--trained", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=PACKAGE)
    parser.add_argument("--only", choices=PARTS)
    given = parser.parse_args()
    parts = PARTS if given.only is None else (given.only,)
    for kind, model in (("clip", Clip()), ("dino", Dino())):
        if kind in parts:
            model.load_state_dict(torch.load(given.trained / f"{kind}.pt", weights_only=True)["model"])
            write_encoder(given.out / ENCODERS / kind, model.eval())
    if "diffusion" in parts:
        denoiser = Denoiser()
        denoiser.load_state_dict(torch.load(given.trained / "diffusion.pt", weights_only=True)["mean"])
        write_diffusion(given.out / ENCODERS / "diffusion", denoiser)
    if "photographs" in parts:
        write_photographs(given.out / PHOTOGRAPHS, given.data)
    folders = [given.out / part for part in (ENCODERS, PHOTOGRAPHS)]
    size = sum(file.stat().st_size for folder in folders for file in folder.rglob("*") if file.is_file())
    print(f"{given.out}: {size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
