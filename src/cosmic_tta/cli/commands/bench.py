"""`cosmic bench`."""

from __future__ import annotations

from typing import Annotated

import typer

from cosmic_tta.cli.bench import runner as benchmark
from cosmic_tta.cli.options import JsonFile
from cosmic_tta.cli.terminal import STDOUT, print_table, refuse_unwritable, say, write_json


def bench(
    classes: Annotated[str, typer.Option(metavar="K,K,...", help="Numbers of classes.")] = "47,102,397,1000",
    methods: Annotated[
        str, typer.Option(metavar="NAME[@PRESET][,...]", help="Methods that are timed beside COSMIC.")
    ] = "tda,dmn,bayes_means",
    shots: Annotated[int, typer.Option(help="Slots per class in COSMIC's caches.")] = 16,
    views: Annotated[int, typer.Option(help="Views per image.")] = 1,
    dim: Annotated[int, typer.Option(help="Width of the CLIP features.")] = 512,
    aux_dim: Annotated[int, typer.Option(help="Width of the auxiliary features.")] = 1024,
    samples: Annotated[int, typer.Option(help="Timed calls of a step; a tenth as many build graphs.")] = 300,
    threads: Annotated[bool, typer.Option(help="Compare one BLAS thread with all cores, in wall time.")] = True,
    large: Annotated[bool, typer.Option(help="Also build one graph of 20,000 nodes.")] = False,
    json_file: JsonFile = None,
) -> None:
    """Measure speed: time a step beside bare array products and a textbook implementation, on synthetic features.

    `cosmic benchmark` measures accuracy.
    """
    widths = {"shots": shots, "views": views, "dim": dim, "aux_dim": aux_dim}
    settings = benchmark.parse_settings(classes, methods, **widths, samples=samples)
    refuse_unwritable(json_file)
    result = benchmark.measure(settings, threads=threads, large=large)
    if json_file != STDOUT:
        say(benchmark.headline(result))
        for title, columns, rows in benchmark.tables(result):
            print_table(columns, rows, title)
        for remark in benchmark.remarks(result):
            say(remark)
    write_json(result, json_file)
