"""`cosmic extract`."""

from __future__ import annotations

import math
import signal
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from cosmic_tta.commands.options import Address, Engine, JsonFile, on_ray
from cosmic_tta.corruptions import CORRUPTIONS, Corruption
from cosmic_tta.datasets import Dataset, few_shot, open_source
from cosmic_tta.encoders import ClipEncoder, Encoder, auto_batch, make_clip, make_encoder
from cosmic_tta.errors import InputError, PackError
from cosmic_tta.extract import Extraction, extract
from cosmic_tta.loading import default_workers
from cosmic_tta.packs import FeaturePack
from cosmic_tta.partial import Partial
from cosmic_tta.prompts import class_texts, named_templates, read_descriptions
from cosmic_tta.terminal import STDOUT, complain, counter, say, writable, write_json
from cosmic_tta.views import DrawnViews, Views

AUTO = "auto"
SHOWN = 20  # failures named on the terminal


def extract_pack(
    source: Annotated[
        str,
        typer.Argument(
            help="A data set's name (with --root), a folder of class folders or of pictures, a CSV or Parquet file, "
            "a Hugging Face data set's folder, or WebDataset shards."
        ),
    ],
    clip: Annotated[str, typer.Option(metavar="FAMILY:MODEL", help="The CLIP-like encoder; see `cosmic encoders`.")],
    out: Annotated[Path, typer.Option(metavar="PACK", help="The folder to make.")],
    aux: Annotated[
        str | None, typer.Option(metavar="FAMILY:MODEL", help="A self-supervised encoder beside it, such as DINOv2.")
    ] = None,
    views: Annotated[int, typer.Option(help="Views a picture: the plain one, then random crops.")] = 16,
    views_from: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="More views, drawn beforehand (`cosmic draw-views`): FOLDER/KEY/*.png."),
    ] = None,
    mix: Annotated[bool, typer.Option("--mix", help="Mix each crop with distortions of itself (AugMix).")] = False,
    seed: Annotated[int, typer.Option(help="Of the views, and of --shots.")] = 0,
    root: Annotated[Path | None, typer.Option(metavar="FOLDER", help="Where the published data sets lie.")] = None,
    split: Annotated[str, typer.Option(help="train, val or test, where the source has such.")] = "test",
    partial: Annotated[bool, typer.Option("--partial", help="Take a published data set that is incomplete.")] = False,
    shots: Annotated[int | None, typer.Option(metavar="N", help="Only so many pictures of each class, drawn.")] = None,
    limit: Annotated[int | None, typer.Option(metavar="N", help="Only the first so many pictures.")] = None,
    classes: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Class names in order: one a line, or JSON.")
    ] = None,
    templates: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME|'... {} ...'", help="Templates by name, or one of your own; may be repeated."),
    ] = None,
    descriptions: Annotated[
        Path | None, typer.Option(metavar="FILE", help="More sentences for each class: JSON {name: [sentence, ...]}.")
    ] = None,
    batch: Annotated[str, typer.Option(metavar="N", help="Rows an encoder takes at once.")] = AUTO,
    workers: Annotated[str, typer.Option(metavar="N", help="Processes that decode pictures; 0: threads.")] = AUTO,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")] = AUTO,
    dtype: Annotated[str, typer.Option(help="What the encoders compute in: auto, float32, float16, bfloat16.")] = AUTO,
    store: Annotated[
        str, typer.Option(help="How features are kept: float32, or float16 in half the space.")
    ] = "float32",
    max_pixels: Annotated[float, typer.Option(metavar="MEGAPIXELS", help="Refuse larger pictures.")] = 25.0,
    shift: Annotated[
        str | None,
        typer.Option(metavar="KIND:SEVERITY", help=f"Spoil each picture first: {', '.join(CORRUPTIONS)}; 1 to 5."),
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="End at the first picture that cannot be used.")] = False,
    engine: Engine = "local",
    address: Address = None,
    json_file: JsonFile = None,
) -> None:
    """Encode pictures into a feature pack. Run it again if it was stopped: it goes on where it was."""
    remote = on_ray(engine, address)
    rows, processes = _number("--batch", batch, 1), _number("--workers", workers, 0)
    kinds = Views(views, seed, mix=mix)
    spoiled = None if shift is None else Corruption.parse(shift, seed)
    if not 0 < max_pixels < math.inf:
        raise InputError(f"--max-pixels must be above 0 (megapixels); given {max_pixels:g}.")
    if not out.name:
        raise InputError(f"--out must name a folder to make; given {str(out)!r}.")
    if out.exists() and not (out.is_dir() and Partial.folder_of(out).exists()):
        raise PackError(f"{str(out)!r} is there already; remove it or choose another folder.")
    writable(json_file)
    dataset = open_source(source, root=root, split=split, classes_file=classes, strict=not partial)
    if shots is not None:
        dataset = few_shot(dataset, shots, seed)
    dataset = _with_templates(_first(dataset, limit), templates)
    told = None if descriptions is None else read_descriptions(descriptions)
    texts = class_texts(dataset.class_names, dataset.templates, told, say=complain)
    drawn = None
    if views_from is not None:
        drawn = DrawnViews.found(str(views_from), [item.key for item in dataset.items])
    quiet = json_file == STDOUT
    if not quiet:
        for note in dataset.notes:
            say(f"{dataset.name}: {note}")
        say(f"{dataset.name}: {len(dataset):,} pictures of {len(dataset.class_names):,} classes, {views} views each.")
    tower = make_clip(clip, device=device, dtype=dtype)
    beside = None if aux is None else make_encoder(aux, device=device, dtype=dtype, kind="image")
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as an interrupt: nothing is lost, workers end
    with ExitStack() as stack, counter(f"encoding {dataset.name}", "pictures") as count:
        try:
            elsewhere = None
            if remote:
                from cosmic_tta.scale.cluster import cluster
                from cosmic_tta.scale.extracting import OnRay

                stack.enter_context(cluster(address, cores=processes))
                elsewhere = OnRay(clip, aux, device=device, dtype=dtype, actors=processes)
            done = extract(
                dataset,
                tower,
                beside,
                out,
                texts=texts,
                views=kinds,
                batch=auto_batch(tower) if rows is None else rows,
                workers=default_workers() if processes is None else processes,
                store=store,
                max_pixels=int(max_pixels * 1e6),
                shift=spoiled,
                drawn=drawn,
                strict=strict,
                engine=elsewhere,
                watch=lambda step: count(step.done, step.total, f"{step.failed} failed" if step.failed else ""),
            )
        except KeyboardInterrupt:
            complain(f"stopped; what is encoded lies in {Partial.folder_of(out)}. The same command goes on from there.")
            raise typer.Exit(130) from None
    if not quiet:
        _show(done, tower, beside)
    write_json(_described(done), json_file)


def _number(option: str, given: str, least: int) -> int | None:
    if given == AUTO:
        return None
    if not given.isdecimal() or int(given) < least:
        raise InputError(f"{option} takes auto or a whole number from {least} on; given {given!r}.")
    return int(given)


def _first(dataset: Dataset, limit: int | None) -> Dataset:
    if limit is None:
        return dataset
    if limit < 1:
        raise InputError(f"--limit must be at least 1; given {limit}.")
    return replace(dataset, items=dataset.items[:limit])


def _with_templates(dataset: Dataset, given: list[str] | None) -> Dataset:
    if not given:
        return dataset
    return replace(dataset, templates=tuple(text for name in given for text in named_templates(name)))


def _show(done: Extraction, clip: ClipEncoder, aux: Encoder | None) -> None:
    for key, problem in list(done.failed.items())[:SHOWN]:
        complain(f"left out: {problem}" if key in problem else f"left out: {key}: {problem}")
    if len(done.failed) > SHOWN:
        complain(f"... and {len(done.failed) - SHOWN} more; all are listed in {done.pack / 'pack.json'}.")
    if done.resumed:
        say(f"{done.resumed:,} pictures had been encoded before.")
    if done.seconds:
        say(f"{done.rate:.1f} pictures a second; the encoders waited {done.idle:.1%} of the time.")
    say(f"{done.pack}: {FeaturePack.open(done.pack).summary}")
    say(f"Next: cosmic eval {done.pack}")


def _described(done: Extraction) -> dict[str, object]:
    return {
        "pack": str(done.pack),
        "pictures": done.pictures,
        "failed": dict(done.failed),
        "resumed": done.resumed,
        "seconds": done.seconds,
        "pictures_per_second": done.rate,
        "idle": done.idle,
    }
