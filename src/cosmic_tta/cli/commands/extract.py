"""`cosmic extract`: options → checked plan → extraction → summary."""

from __future__ import annotations

import math
import signal
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from cosmic_tta.cli.options import (
    Address,
    DatasetRoot,
    Descriptions,
    Device,
    Engine,
    JsonFile,
    Shift,
    Split,
    Templates,
    uses_ray,
)
from cosmic_tta.cli.terminal import STDOUT, complain, counter, refuse_unwritable, say, write_json
from cosmic_tta.core.errors import InputError, PackError
from cosmic_tta.data.datasets import Dataset, few_shot, open_source
from cosmic_tta.data.images.augment import GeneratedViews, RandomViews
from cosmic_tta.data.images.corrupt import Corruption
from cosmic_tta.data.prompts import class_sentences, find_templates, read_descriptions
from cosmic_tta.encoders import auto_batch, make_clip, make_encoder
from cosmic_tta.features.extraction.engine import ExtractionEngine
from cosmic_tta.features.extraction.extract import Extraction, extract
from cosmic_tta.features.extraction.loader import default_workers
from cosmic_tta.features.extraction.resume import PartialPack
from cosmic_tta.features.pack import FeaturePack
from cosmic_tta.features.pack_format import read_head
from cosmic_tta.reporting.tables import counted

AUTO = "auto"
MAX_SHOWN = 20  # failures named on the terminal

Source = Annotated[
    str,
    typer.Argument(
        help="A data set's name (with --root), a folder of class folders or of images, a CSV or Parquet file, "
        "the folder of a Hugging Face data set, or WebDataset shards."
    ),
]
Clip = Annotated[str, typer.Option(metavar="FAMILY:MODEL", help="The CLIP-like encoder; see `cosmic encoders`.")]
Out = Annotated[Path, typer.Option(metavar="PACK", help="The folder to create.")]
Aux = Annotated[
    str | None, typer.Option(metavar="FAMILY:MODEL", help="A self-supervised encoder for auxiliary features.")
]
Views = Annotated[int, typer.Option(help="Views per image: the plain image, then random crops.")]
ViewsFrom = Annotated[
    Path | None,
    typer.Option(metavar="FOLDER", help="Add generated views (`cosmic draw-views`): FOLDER/KEY/*.png."),
]
Mix = Annotated[bool, typer.Option("--mix", help="Mix each crop with augmentations of itself (AugMix).")]
Seed = Annotated[int, typer.Option(help="Seed of the views and of --shots.")]
Partial = Annotated[bool, typer.Option("--partial", help="Accept an incomplete copy of a published data set.")]
Shots = Annotated[int | None, typer.Option(metavar="N", help="Draw only N images per class.")]
Limit = Annotated[int | None, typer.Option(metavar="N", help="Use only the first N images.")]
Classes = Annotated[Path | None, typer.Option(metavar="FILE", help="Class names in order: one per line, or JSON.")]
Batch = Annotated[str, typer.Option(metavar="N", help="Images that an encoder takes at once.")]
Workers = Annotated[str, typer.Option(metavar="N", help="Processes that decode images. 0: threads.")]
Dtype = Annotated[str, typer.Option(help="Precision of the encoders: auto, float32, float16, bfloat16.")]
Store = Annotated[str, typer.Option(help="Precision of the pack: float32, or float16 in half the space.")]
MaxPixels = Annotated[float, typer.Option(metavar="MEGAPIXELS", help="Refuse larger images.")]
Strict = Annotated[bool, typer.Option("--strict", help="Stop at the first image that cannot be used.")]


@dataclass(frozen=True)
class ExtractOptions:
    """What the command was given, checked."""

    clip: str
    aux: str | None
    out: Path
    device: str
    dtype: str
    batch: int | None  # None: chosen by the encoder
    workers: int | None  # None: chosen by the machine
    views: RandomViews
    shift: Corruption | None
    store: str
    max_pixels: int
    strict: bool
    ray: bool
    address: str | None

    def __post_init__(self) -> None:
        if not self.out.name:
            raise InputError(f"--out must name a folder to create; given {str(self.out)!r}.")
        if self.out.exists() and not (self.out.is_dir() and PartialPack.folder_of(self.out).exists()):
            complete = " and is complete" if _is_pack(self.out) else ""
            raise PackError(f"{str(self.out)!r} exists already{complete}; remove it or choose another folder.")


def extract_pack(
    source: Source,
    clip: Clip,
    out: Out,
    aux: Aux = None,
    views: Views = 16,
    views_from: ViewsFrom = None,
    mix: Mix = False,
    seed: Seed = 0,
    root: DatasetRoot = None,
    split: Split = "test",
    partial: Partial = False,
    shots: Shots = None,
    limit: Limit = None,
    classes: Classes = None,
    templates: Templates = None,
    descriptions: Descriptions = None,
    batch: Batch = AUTO,
    workers: Workers = AUTO,
    device: Device = AUTO,
    dtype: Dtype = AUTO,
    store: Store = "float32",
    max_pixels: MaxPixels = 25.0,
    shift: Shift = None,
    strict: Strict = False,
    engine: Engine = "local",
    address: Address = None,
    json_file: JsonFile = None,
) -> None:
    """Encode images into a feature pack. If it was stopped, run it again: it continues."""
    options = ExtractOptions(
        clip, aux, out, device, dtype,
        batch=_number("--batch", batch, 1),
        workers=_number("--workers", workers, 0),
        views=RandomViews(views, seed, mix=mix),
        shift=None if shift is None else Corruption.parse(shift, seed),
        store=store,
        max_pixels=_pixels(max_pixels),
        strict=strict,
        ray=uses_ray(engine, address),
        address=address,
    )  # fmt: skip
    refuse_unwritable(json_file)
    dataset = open_source(source, root=root, split=split, classes_file=classes, strict=not partial)
    dataset = _selected(dataset, shots, limit, seed, templates)
    extra = None if descriptions is None else read_descriptions(descriptions)
    sentences = class_sentences(dataset.class_names, dataset.templates, extra, warn=complain)
    generated = None
    if views_from is not None:
        generated = GeneratedViews.in_folder(str(views_from), [item.key for item in dataset.items])
    done = _run(dataset, sentences, generated, options, quiet=json_file == STDOUT)
    write_json(_described(done), json_file)


def _selected(
    dataset: Dataset, shots: int | None, limit: int | None, seed: int, templates: list[str] | None
) -> Dataset:
    """Return the images that are asked for, with their prompt templates."""
    if shots is not None:
        dataset = few_shot(dataset, shots, seed)
    if limit is not None:
        if limit < 1:
            raise InputError(f"--limit must be at least 1; given {limit}.")
        dataset = replace(dataset, items=dataset.items[:limit])
    if templates:
        dataset = replace(dataset, templates=tuple(text for name in templates for text in find_templates(name)))
    return dataset


def _run(
    dataset: Dataset,
    sentences: list[list[str]],
    generated: GeneratedViews | None,
    options: ExtractOptions,
    *,
    quiet: bool,
) -> Extraction:
    """Extract the pack with progress on stderr. An interrupt leaves what is needed to continue."""
    if not quiet:
        for note in dataset.notes:
            say(f"{dataset.name}: {note}")
        classes = len(dataset.class_names)
        counts = f"{counted(len(dataset), 'image')} of {classes:,} {'class' if classes == 1 else 'classes'}"
        say(f"{dataset.name}: {counts}, {counted(options.views.count, 'view')} each.")
    clip = make_clip(options.clip, device=options.device, dtype=options.dtype)
    aux = None
    if options.aux is not None:
        aux = make_encoder(options.aux, device=options.device, dtype=options.dtype, kind="image")
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # like an interrupt: nothing is lost, workers end
    with ExitStack() as stack, counter(f"encoding {dataset.name}", "images") as count:
        try:
            done = extract(
                dataset,
                clip,
                aux,
                options.out,
                texts=sentences,
                views=options.views,
                batch=auto_batch(clip) if options.batch is None else options.batch,
                workers=default_workers() if options.workers is None else options.workers,
                store=options.store,
                max_pixels=options.max_pixels,
                shift=options.shift,
                generated=generated,
                strict=options.strict,
                engine=_ray_engine(options, stack) if options.ray else None,
                watch=lambda step: count(step.done, step.total, f"{step.failed} failed" if step.failed else ""),
            )
        except KeyboardInterrupt:
            folder = PartialPack.folder_of(options.out)
            complain(f"stopped. Encoded images are kept in {folder}; run the same command to continue.")
            raise typer.Exit(130) from None
    if not quiet:
        _show(done)
    return done


def _ray_engine(options: ExtractOptions, stack: ExitStack) -> ExtractionEngine:
    from cosmic_tta.distributed.cluster import connect_cluster
    from cosmic_tta.distributed.extraction import RayEngine

    stack.enter_context(connect_cluster(options.address, cores=options.workers))
    return RayEngine(options.clip, options.aux, device=options.device, dtype=options.dtype, actors=options.workers)


def _is_pack(folder: Path) -> bool:
    try:
        read_head(folder)
    except PackError:
        return False
    return True


def _number(option: str, text: str, least: int) -> int | None:
    if text == AUTO:
        return None
    if not text.isdecimal() or int(text) < least:
        raise InputError(f"{option} takes auto or a whole number from {least} on; given {text!r}.")
    return int(text)


def _pixels(megapixels: float) -> int:
    if not 0 < megapixels < math.inf:
        raise InputError(f"--max-pixels must be above 0 (megapixels); given {megapixels:g}.")
    return int(megapixels * 1e6)


def _show(done: Extraction) -> None:
    for key, problem in list(done.failed.items())[:MAX_SHOWN]:
        complain(f"left out: {problem}" if key in problem else f"left out: {key}: {problem}")
    if len(done.failed) > MAX_SHOWN:
        complain(f"... and {len(done.failed) - MAX_SHOWN} more; all are listed in {done.pack / 'pack.json'}.")
    if done.resumed:
        say(f"{counted(done.resumed, 'image')} had been encoded before.")
    if done.seconds:
        say(f"{done.rate:.1f} images per second; the encoders waited {done.idle:.1%} of the time.")
    say(f"{done.pack}: {FeaturePack.open(done.pack).summary}")
    say(f"Next: cosmic eval {done.pack}")


def _described(done: Extraction) -> dict[str, object]:
    return {
        "pack": str(done.pack),
        "images": done.images,
        "failed": dict(done.failed),
        "resumed": done.resumed,
        "seconds": done.seconds,
        "images_per_second": done.rate,
        "idle": done.idle,
    }
