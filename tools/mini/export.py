"""Write the trained mini models and their photographs into the package.

`python tools/mini/export.py --data FOLDER --trained FOLDER [--only clip|dino|drawer|photographs]`

Weights are kept in half precision and computed in float32. The photographs are the first 200 test pictures of each
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
from drawer import Drawer
from networks import ImageTower
from onnx import TensorProto, helper, numpy_helper
from PIL import Image
from torch import Tensor, nn
from torch.nn import functional
from train import Clip, Dino

from cosmic_tta.encoders.mini_drawer import GRAPH
from cosmic_tta.encoders.onnx import FORMAT, HEAD, IMAGE, TEXT, fingerprint_of
from cosmic_tta.preprocessing import Preprocessing

PACKAGE = Path(__file__).resolve().parents[2] / "src" / "cosmic_tta" / "mini"
PARTS = ("clip", "dino", "drawer", "photographs")
EACH, COLUMNS = 200, 50
HALVED = 512  # a smaller array is not worth it
OPSET = 20
TRACE = 1e-6  # a picture that stirs no channel at all still gets a direction


class Pixels(nn.Module):
    """Eight-bit pixels [B, 32, 32, 3] to unit features and unit patches."""

    def __init__(self, tower: ImageTower, *, project: bool) -> None:
        super().__init__()
        self.tower, self.project = tower, project

    def forward(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        cells = self.tower.cells(pixels.permute(0, 3, 1, 2).float() / 255).permute(0, 2, 3, 1)  # [B, 4, 4, width]
        cells = cells + TRACE
        features = cells.mean((1, 2))
        if self.project:
            features, cells = self.tower.project(features), self.tower.project(cells)
        return functional.normalize(features, dim=-1), functional.normalize(cells, dim=-1)


class Sentences(nn.Module):
    """Numbers of words [T, LONGEST] to unit features."""

    def __init__(self, tower: nn.Module) -> None:
        super().__init__()
        self.tower = tower

    def forward(self, ids: Tensor) -> Tensor:
        return functional.normalize(self.tower(ids), dim=-1)


def write_graph(tower: nn.Module, file: Path, given: dict[str, Tensor], names: list[str]) -> None:
    batch = torch.export.Dim("batch", min=1, max=65_536)
    program = torch.onnx.export(
        tower.eval(),
        tuple(given.values()),
        dynamo=True,
        opset_version=OPSET,
        input_names=list(given),
        output_names=names,
        dynamic_shapes=tuple({0: batch} for _ in given),
        verbose=False,
    )
    if program is None:
        raise RuntimeError("nothing was exported")
    graph = program.model_proto
    halve(graph)
    onnx.save(graph, file)


def halve(model: onnx.ModelProto) -> None:
    """Keep large arrays in half precision; a cast beside each makes them float32 again."""
    graph, casts = model.graph, []
    for weight in graph.initializer:
        values = numpy_helper.to_array(weight)
        if values.dtype != np.float32 or values.size < HALVED:
            continue
        name = weight.name
        weight.CopyFrom(numpy_helper.from_array(values.astype(np.float16), f"{name}.half"))
        casts.append(helper.make_node("Cast", [f"{name}.half"], [name], to=TensorProto.FLOAT))
    for place, node in enumerate(casts):
        graph.node.insert(place, node)
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
        told = {"words": words.vocabulary(), "classes": list(photographs.CLASSES)}
        (folder / "words.json").write_text(json.dumps(told, indent=1), encoding="utf-8")
        text = {"tokenizer": "words", "context": words.LONGEST, "pad": 0}
    plain = Preprocessing((32, 32), 32, (0.47, 0.47, 0.47), (0.25, 0.25, 0.25))
    head = {
        "format": FORMAT,
        "dim": tower(example)[0].shape[1],
        "precision": "fp16 weights, fp32 arithmetic",
        "preprocessing": plain.described(),
        "logit_scale": None if clip is None else float(clip.log_scale.exp().clamp(max=100)),
        "text": text,
        "fingerprint": fingerprint_of(folder),
        "source": {"name": f"tools/mini/train.py {'clip' if clip else 'dino'}", "torch": torch.__version__},
    }
    (folder / HEAD).write_text(json.dumps(head, indent=1), encoding="utf-8")


def write_drawer(folder: Path, model: Drawer) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    given = {"noisy": torch.zeros(2, 3, 32, 32), "far": torch.zeros(2)}
    write_graph(model, folder / GRAPH, given, ["velocity"])


def write_photographs(folder: Path, data: Path) -> None:
    pictures, labels = photographs.read(data, "test")
    chosen = torch.cat([(labels == label).nonzero()[:EACH, 0] for label in range(len(photographs.CLASSES))])
    chosen = chosen.sort().values
    tiles = pictures[chosen].permute(0, 2, 3, 1).view(-1, COLUMNS, 32, 32, 3).permute(0, 2, 1, 3, 4)
    folder.mkdir(parents=True, exist_ok=True)
    sheet = tiles.reshape(-1, COLUMNS * 32, 3).numpy()
    Image.fromarray(sheet).save(folder / "photographs.png", optimize=True)
    told = {"classes": list(photographs.CLASSES), "labels": labels[chosen].tolist()}
    (folder / "photographs.json").write_text(json.dumps(told), encoding="utf-8")


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
            write_encoder(given.out / kind, model.eval())
    if "drawer" in parts:
        drawer = Drawer()
        drawer.load_state_dict(torch.load(given.trained / "drawer.pt", weights_only=True)["mean"])
        write_drawer(given.out / "drawer", drawer)
    if "photographs" in parts:
        write_photographs(given.out, given.data)
    size = sum(file.stat().st_size for file in given.out.rglob("*") if file.is_file())
    print(f"{given.out}: {size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
