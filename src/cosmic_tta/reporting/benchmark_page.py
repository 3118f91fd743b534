"""A benchmark as files: `results.csv` with every run, `results.md` with the tables, `index.html` to explore."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from cosmic_tta.core.files import write_atomic
from cosmic_tta.evaluation.benchmark_summary import (
    ALL_STREAMS,
    LeftOutResult,
    MethodSummary,
    SettingResult,
    average_seeds,
    summarize_benchmark,
)
from cosmic_tta.evaluation.report import Report
from cosmic_tta.features.pack import AUX_KINDS
from cosmic_tta.reporting.chart_data import Cell, Chart, ResultSet, Table, slug
from cosmic_tta.reporting.tables import ABSENT, as_csv, counted, markdown

CSV_COLUMNS = (
    "method", "pack", "aux", "stream", "seed", "acc1", "zero_shot_acc1", "gain", "ece", "auroc", "ms_per_sample",
    "state_mb", "version",
)  # fmt: skip
METRICS = ("acc1", "zero_shot_acc1", "gain", "ece", "auroc")
SUMMARY_COLUMNS = (
    "method", "mean gain", "95 % interval", "worst gain", "worst at", "mean rank", "ECE", "AUROC", "ms/sample",
)  # fmt: skip
STREAM_FILTER, AUX_FILTER = "stream", "aux"
EXPLANATION = (
    "Gains are percentage points of top-1 accuracy over zero-shot in the same run, averaged over seeds, then over "
    "settings. A setting is a pack with a kind of auxiliary features. The interval is a bootstrap over settings. "
    "Rank 1 is the best method of a setting. ECE and AUROC (open-set streams alone) are in percent. Times were "
    "measured while other runs may have used the same machine."
)


@dataclass(frozen=True)
class BenchmarkDescription:
    """What was run, and what was not."""

    version: str
    command: str
    packs: tuple[str, ...]  # names
    seeds: tuple[int, ...]
    missing: tuple[str, ...] = ()  # what was left out or failed, one sentence each

    def facts(self) -> tuple[str, ...]:
        """Return what identifies the benchmark, one sentence each."""
        return (
            f"cosmic-tta {self.version}; seeds {', '.join(map(str, self.seeds))}; packs {', '.join(self.packs)}.",
            f"Command: {self.command}",
        )


def runs_table(reports: Sequence[Report]) -> Table:
    """Return one row per run, as fractions of one; an absent metric is None."""
    rows: list[tuple[Cell, ...]] = [
        (
            report.title,
            report.pack,
            report.aux,
            report.order,
            report.seed,
            *(report.metrics.get(name) for name in METRICS),
            report.ms_per_sample,
            report.state_mb,
            report.software["cosmic-tta"],
        )
        for report in reports
    ]
    return Table("results", "Every run", CSV_COLUMNS, rows)


def gain_table(summary: Mapping[str, Sequence[MethodSummary]], title: str) -> Table:
    """Return the mean gain per method and stream; the last column is over all streams."""
    gains = _gains_by_stream(summary)
    rows = [(method, *(_points(own.get(stream)) for stream in summary)) for method, own in gains.items()]
    return Table(slug(title), title, ("method", *summary), rows)


def stream_table(title: str, rows: Sequence[MethodSummary]) -> Table:
    """Return the comparison of all methods on one stream, or on all."""
    most = max(row.results for row in rows)
    partly = [f"{row.method} has {row.results} of {most} results" for row in rows if row.results < most]
    note = f"Not comparable with the others: {'; '.join(partly)}." if partly else ""
    return Table(slug("methods", title), title, SUMMARY_COLUMNS, list(map(_row, rows)), note)


def _row(row: MethodSummary) -> tuple[Cell, ...]:
    interval = ABSENT if row.low is None or row.high is None else f"{_points(row.low)} to {_points(row.high)}"
    auroc = ABSENT if row.auroc is None else f"{100 * row.auroc:.2f}"
    return (
        row.method, _points(row.gain), interval, _points(row.worst), row.worst_at, f"{row.rank:.2f}",
        f"{100 * row.ece:.2f}", auroc, f"{row.ms:.2f}",
    )  # fmt: skip


def setting_table(results: Sequence[SettingResult], title: str) -> Table:
    """Return the gain per setting and method, averaged over the streams of the results."""
    cells: dict[str, dict[str, list[float]]] = {}
    for result in results:
        cells.setdefault(str(result.setting), {}).setdefault(result.method, []).append(result.gain)
    methods = tuple(dict.fromkeys(result.method for result in results))
    rows = [(name, *(_points(fmean(own[m])) if m in own else ABSENT for m in methods)) for name, own in cells.items()]
    return Table(slug(title), title, ("pack / auxiliary features", *methods), rows)


def leave_one_out_table(rows: Sequence[LeftOutResult]) -> Table:
    """Return which parameters were chosen without each data set, and what they gain on it; the last row is the mean."""
    cells: list[tuple[Cell, ...]] = [
        (row.dataset, row.chosen, _points(row.gain), _points(row.default_gain), _points(row.gain - row.default_gain))
        for row in rows
    ]
    gain, default = fmean(row.gain for row in rows), fmean(row.default_gain for row in rows)
    cells.append(("mean", ABSENT, _points(gain), _points(default), _points(gain - default)))
    return Table(
        "leave-one-out",
        "Parameters chosen without the data set that they are measured on",
        ("left out", "chosen on the others", "gain", "gain of the default", "difference"),
        cells,
        "Gains are percentage points over zero-shot. The parameters with the best mean gain on all other data sets are "
        "chosen; the default is one of them. Packs with the same classes are one data set.",
    )


def benchmark_markdown(
    reports: Sequence[Report], description: BenchmarkDescription, left_out: Sequence[LeftOutResult] = ()
) -> str:
    """Return the tables of a benchmark as markdown."""
    results = average_seeds(reports)
    whole = summarize_benchmark(results)
    parts = ["# Benchmark", _listed(description.facts()), EXPLANATION]
    if description.missing:
        parts.append(f"Left out:\n\n{_listed(description.missing)}")
    tables = [leave_one_out_table(left_out)] if left_out else []
    tables += [gain_table(summarize_benchmark(own), _gain_title(aux)) for aux, own in aux_views(results).items()]
    tables += [stream_table(stream, rows) for stream, rows in _overall_first(whole)]
    parts += map(markdown, tables)
    return "\n\n".join(parts) + "\n"


def _overall_first(summary: Mapping[str, Sequence[MethodSummary]]) -> list[tuple[str, Sequence[MethodSummary]]]:
    return sorted(summary.items(), key=lambda item: item[0] != ALL_STREAMS)


def _listed(sentences: Sequence[str]) -> str:
    return "\n".join(f"- {sentence}" for sentence in sentences)


def aux_views(results: Sequence[SettingResult]) -> dict[str, list[SettingResult]]:
    """Return all results, and if there are several kinds of auxiliary features those of each kind."""
    kinds = [kind for kind in AUX_KINDS if any(result.setting.aux == kind for result in results)]
    views = {" + ".join(kinds): list(results)}
    if len(kinds) > 1:
        views |= {kind: [result for result in results if result.setting.aux == kind] for kind in kinds}
    return views


def benchmark_sections(reports: Sequence[Report], left_out: Sequence[LeftOutResult] = ()) -> list[ResultSet]:
    """Return the sections of the page; filters choose the stream and the kind of auxiliary features."""
    results = average_seeds(reports)
    gains, streams, settings = [], [], []
    charts = []
    for aux, own in aux_views(results).items():
        tags = {AUX_FILTER: (aux,)}
        summary = summarize_benchmark(own)
        gains.append(_tagged(gain_table(summary, _gain_title(aux)), tags))
        charts.append(_gain_chart(summary, aux))
        for stream, rows in _overall_first(summary):
            both = tags | {STREAM_FILTER: (ALL_STREAMS,) if stream == ALL_STREAMS else (ALL_STREAMS, stream)}
            streams.append(_tagged(stream_table(f"{stream}, aux {aux}", rows), both))
            shown = [result for result in own if stream in (ALL_STREAMS, result.stream)]
            only = tags | {STREAM_FILTER: (stream,)}
            settings.append(_tagged(setting_table(shown, f"Gain per pack: {stream}, aux {aux}"), only))
    chosen = [ResultSet("leave-one-out", "Leave one out", [leave_one_out_table(left_out)])] if left_out else []
    return [
        ResultSet("gains", "Mean gain over zero-shot", gains, charts),
        *chosen,
        ResultSet("streams", "Methods per stream", streams, notes=[EXPLANATION]),
        ResultSet("settings", "Packs", settings),
    ]


def write_benchmark(
    folder: Path, reports: Sequence[Report], description: BenchmarkDescription, left_out: Sequence[LeftOutResult] = ()
) -> list[Path]:
    """Write `results.csv`, `results.md` and, if plotly is installed, `index.html`; return the files."""
    from cosmic_tta.reporting.plotting.html_page import write_page
    from cosmic_tta.reporting.plotting.requirements import can_draw

    csv, text, page = folder / "results.csv", folder / "results.md", folder / "index.html"
    write_atomic(csv, as_csv(runs_table(reports)).encode())
    write_atomic(text, benchmark_markdown(reports, description, left_out).encode())
    if not can_draw():
        return [csv, text]
    facts = ResultSet("about", "About", notes=description.facts(), missing=description.missing)
    counts = f"{counted(len(reports), 'run')} on {counted(len(description.packs), 'pack')}"
    lead = f"{counts}. Choose a stream and the auxiliary features."
    write_page([*benchmark_sections(reports, left_out), facts], page, "Benchmark", lead)
    return [csv, text, page]


def _gain_chart(summary: Mapping[str, Sequence[MethodSummary]], aux: str) -> Chart:
    gains = _gains_by_stream(summary)
    title = f"Mean gain, aux {aux}"
    return Chart(
        slug(title),
        title,
        "heatmap",
        x_title="stream",
        y_title="method",
        z_title="gain, points",
        cells=[[100 * own.get(stream, math.nan) for stream in summary] for own in gains.values()],
        row_names=list(gains),
        column_names=list(summary),
        cell_format=".1f",
        tags={AUX_FILTER: (aux,)},
    )


def _gains_by_stream(summary: Mapping[str, Sequence[MethodSummary]]) -> dict[str, dict[str, float]]:
    """Return per method its mean gain on each stream."""
    gains: dict[str, dict[str, float]] = {}
    for stream, rows in summary.items():
        for row in rows:
            gains.setdefault(row.method, {})[stream] = row.gain
    return gains


def _gain_title(aux: str) -> str:
    return f"Mean gain over zero-shot in points, aux {aux}"


def _tagged(table: Table, tags: Mapping[str, Sequence[str]]) -> Table:
    return Table(table.name, table.title, table.columns, table.rows, table.note, tags)


def _points(gain: float | None) -> str:
    """Return a fraction in percentage points with its sign; never -0.00."""
    return ABSENT if gain is None else f"{round(100 * gain, 2) + 0.0:+.2f}"
