"""Small sources of images: JPEGs, Arrow tables, shards; and what a data set of them holds."""

from __future__ import annotations

import io
import json
import pickle
import tarfile
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
from PIL import Image

from cosmic_tta.core.errors import CosmicError
from cosmic_tta.data.datasets import Dataset, arrow, open_source
from cosmic_tta.data.images.decode import open_image
from tests.support.trees import features, write

CLASS_LABEL = {"names": ["cat", "polar_bear", "owl"], "_type": "ClassLabel"}
IMAGE = {"_type": "Image"}


def jpeg(width: int) -> bytes:
    """Return an image that its width identifies."""
    stream = io.BytesIO()
    Image.new("RGB", (width, 3)).save(stream, format="JPEG")
    return stream.getvalue()


def widths(data: Dataset) -> list[int]:
    """Return the width of each image, which identifies it."""
    return [open_image(pickle.loads(pickle.dumps(item)).read()).width for item in data.items]


def keys_and_labels(data: Dataset) -> list[tuple[str, int | None]]:
    """Return the items, after each image was read in full."""
    for item in data.items:
        assert open_image(pickle.loads(pickle.dumps(item)).read()).size == (4, 3)
    return [(item.key, item.label) for item in data.items]


def image_table(first_width: int, labels: list[int], **columns: Any) -> pa.Table:
    """Return a table of images and labels as Hugging Face writes it."""
    images = [{"bytes": jpeg(first_width + row), "path": None} for row in range(len(labels))]
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    table = pa.table({"image": pa.array(images, kind), "label": pa.array(labels, pa.int64()), **columns})
    return table.replace_schema_metadata(features(image=IMAGE, label=CLASS_LABEL))


def save_to_disk(folder: Path, *tables: pa.Table) -> None:
    """Write tables as Hugging Face's `save_to_disk` does."""
    folder.mkdir(parents=True)
    names = [f"data-{number:05d}-of-{len(tables):05d}.arrow" for number in range(len(tables))]
    for name, table in zip(names, tables, strict=True):
        with pa.OSFile(str(folder / name), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table, max_chunksize=2)
    state = {"_data_files": [{"filename": name} for name in names], "_indices_data_files": None, "_split": "test"}
    write(folder / "state.json", json.dumps(state))
    write(folder / "dataset_info.json", json.dumps({"features": {"image": IMAGE, "label": CLASS_LABEL}}))


def shard(file: Path, members: dict[str, bytes], mode: str = "w") -> None:
    """Write a tar file."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(file, mode) as archive:  # type: ignore[call-overload]
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))


def check_damaged_bytes(source: Path, file: Path) -> None:
    """Damage random bytes of a file: the source loads, or raises one of our errors; the process never crashes."""
    whole, random, refused = file.read_bytes(), Random(0), 0
    for _ in range(150):
        damaged = bytearray(whole)
        for _ in range(random.choice((1, 1, 5))):
            damaged[random.randrange(len(whole))] = random.randrange(256)
        file.unlink()  # a new file: a mapped one stays as it was
        file.write_bytes(damaged[: random.choice((len(whole), len(whole), random.randrange(len(whole))))])
        arrow._map_arrow.cache_clear()
        arrow._read_column.cache_clear()
        try:
            for item in open_source(source, strict=False).items:
                item.read()
        except CosmicError:
            refused += 1
    assert refused > 30
