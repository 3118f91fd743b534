"""Reports of several methods as tables: accuracy, details, differences with intervals, loss on correlated streams."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean, stdev

from cosmic_tta.evaluation.metrics import CorrectSteps, paired_interval, summarize
from cosmic_tta.evaluation.report import Report
from cosmic_tta.evaluation.streams.registry import is_correlated
from cosmic_tta.reporting.chart_data import Table, slug
from cosmic_tta.reporting.tables import ABSENT

ZERO_SHOT = "zero_shot"
DETAIL_METRICS = (  # column, metric, format, factor
    ("macro", "macro_acc", ".2f", 100),
    ("NLL", "nll", ".3f", 1),
    ("Brier", "brier", ".3f", 1),
    ("ECE fitted", "ece_fitted", ".2f", 100),
    ("temperature", "temperature", ".2f", 1),
    ("AUROC", "auroc", ".2f", 100),
)
ALWAYS_SHOWN = ("auroc",)  # only open-set streams have it, so it is shown without --details
COLUMNS = ("method", "accuracy", "zero-shot", "gain", "top-5", "ECE", "ms/sample")


def accuracy_tables(reports: Iterable[Report]) -> list[Table]:
    """Return the results of methods, one table per pack and stream, averaged over seeds.

    Zero-shot accuracy stands beside every method; ± is the standard deviation over seeds.
    """
    return [
        _table(
            "results", stream_title(group), COLUMNS, [_row(title, own) for title, own in group_by_method(group).items()]
        )
        for group in group_by_stream(reports)
    ]


def _table(kind: str, title: str, columns: Sequence[str], rows: Sequence[tuple[str, ...]]) -> Table:
    return Table(slug(kind, title), title, tuple(columns), rows)


def group_by_stream(reports: Iterable[Report]) -> list[list[Report]]:
    """Group reports by pack, order and auxiliary features."""
    groups: dict[tuple[str, str, str], list[Report]] = {}
    for report in reports:
        groups.setdefault((report.pack, report.order, report.aux), []).append(report)
    return list(groups.values())


def group_by_method(reports: Iterable[Report]) -> dict[str, list[Report]]:
    """Group reports by method with its preset and changed parameters."""
    groups: dict[str, list[Report]] = {}
    for report in reports:
        groups.setdefault(report.title, []).append(report)
    return groups


def stream_title(group: Sequence[Report]) -> str:
    """Return the pack, the number of images, the order and the seeds of a group of reports."""
    first = group[0]
    sizes = sorted({report.n for report in group})
    images = " to ".join(map(str, sizes[:1] + sizes[1:][-1:]))
    order = first.order if first.aux == "given" else f"{first.order}, aux {first.aux}"
    seeds = sorted({report.seed for report in group})
    seeded = "" if first.order == "given" else f", seed{'s' * (len(seeds) > 1)} {', '.join(map(str, seeds))}"
    return f"{first.pack}: {images} images, {order}{seeded}"


def _row(title: str, group: Sequence[Report]) -> tuple[str, ...]:
    def percent(metric: str, form: str = ".2f", *, with_deviation: bool = False) -> str:
        values = [100 * report.metrics[metric] for report in group if metric in report.metrics]
        if not values:
            return ABSENT
        deviation = f" ± {stdev(values):.2f}" if with_deviation and len(values) > 1 else ""
        return f"{round(fmean(values), 2) + 0.0:{form}}{deviation}"  # + 0.0: never -0.00

    return (
        title,
        percent("acc1", with_deviation=True),
        percent("zero_shot_acc1"),
        percent("gain", "+.2f"),
        percent("acc5"),
        percent("ece"),
        f"{fmean(report.ms_per_sample for report in group):.2f}",
    )


def shuffle_loss_tables(reports: Iterable[Report]) -> list[Table]:
    """Return how much accuracy each method loses on correlated streams against the same images shuffled.

    One table per pack with both kinds of stream. A loss is the mean over the seeds that both streams have.
    """
    tables = []
    for group in _group_by_pack(reports):
        orders = {own[0].order: group_by_method(own) for own in group_by_stream(group)}
        correlated = [order for order in orders if is_correlated(order)]
        if "shuffle" not in orders or not correlated:
            continue
        rows = []
        for title, shuffled in orders["shuffle"].items():
            losses = [_loss(shuffled, orders[order].get(title, [])) for order in correlated]
            rows.append((title, _mean(shuffled, "acc1"), *losses))
        aux = "" if group[0].aux == "given" else f", aux {group[0].aux}"
        title = f"{group[0].pack}{aux}: loss against shuffled"
        tables.append(_table("losses", title, ("method", "shuffle", *correlated), rows))
    return tables


def _group_by_pack(reports: Iterable[Report]) -> list[list[Report]]:
    groups: dict[tuple[str, str], list[Report]] = {}
    for report in reports:
        groups.setdefault((report.pack, report.aux), []).append(report)
    return list(groups.values())


def _accuracy_by_seed(group: Iterable[Report]) -> dict[int, float]:
    return {report.seed: report.metrics["acc1"] for report in group if "acc1" in report.metrics}


def _loss(shuffled: Sequence[Report], correlated: Sequence[Report]) -> str:
    before, after = _accuracy_by_seed(shuffled), _accuracy_by_seed(correlated)
    both = sorted(before.keys() & after.keys())
    return format_points(fmean(before[seed] - after[seed] for seed in both)) if both else ABSENT


def _mean(group: Sequence[Report], metric: str) -> str:
    values = [report.metrics[metric] for report in group if metric in report.metrics]
    return f"{100 * fmean(values):.2f}" if values else ABSENT


def format_points(difference: float) -> str:
    """Return a difference of two fractions in percentage points with its sign, never as -0.00.

    >>> format_points(0.0123), format_points(-0.000001)
    ('+1.23', '+0.00')
    """
    return f"{round(100 * difference, 2) + 0.0:+.2f}"


def detail_tables(reports: Iterable[Report], *, every: bool = False) -> list[Table]:
    """Return the metrics that `accuracy_tables` leaves out, one table per stream.

    Args:
        reports: Reports of any methods and streams.
        every: Show every metric; else only those that most streams do not have.

    Returns:
        The tables; a stream without such metrics has none.
    """
    tables = []
    for group in group_by_stream(reports):
        rows = {title: _detail_cells(own, every) for title, own in group_by_method(group).items()}
        columns = list(dict.fromkeys(name for row in rows.values() for name in row))
        if columns:
            cells = [(title, *(row.get(name, ABSENT) for name in columns)) for title, row in rows.items()]
            tables.append(_table("details", f"{stream_title(group)}: more", ("method", *columns), cells))
    return tables


def _detail_cells(group: Sequence[Report], every: bool) -> dict[str, str]:
    """Return the cells of one method by column, without those that its reports do not have."""
    cells = {}
    for name, metric, form, factor in DETAIL_METRICS:
        values = [factor * report.metrics[metric] for report in group if metric in report.metrics]
        if values and (every or metric in ALWAYS_SHOWN):
            cells[name] = f"{fmean(values):{form}}"
    accuracies = list(_accuracy_by_seed(group).values())
    worst = summarize(accuracies).worst_tenth if accuracies else None
    if worst is not None:
        cells["worst tenth"] = f"{100 * worst:.2f}"
    if every:
        cells["MB"] = f"{fmean(report.state_mb for report in group):.2f}"
    return cells


def difference_tables(results: Sequence[tuple[Report, CorrectSteps]]) -> list[Table]:
    """Return the difference in accuracy from zero-shot and from the first method, with 95 % intervals.

    One table per stream with at least two methods. Zero-shot is that of the same run, with the same prompts. Against
    the first method, the seeds count that both have.
    """
    correct_steps = {id(report): steps for report, steps in results}
    tables = []
    for group in group_by_stream(report for report, _ in results):
        methods = {
            title: {report.seed: correct_steps[id(report)] for report in own}
            for title, own in group_by_method(group).items()
        }
        first, *others = methods
        if not others:
            continue
        baselines: dict[str, Mapping[int, CorrectSteps] | None] = {"against zero-shot": None}
        if first != ZERO_SHOT:
            baselines[f"against {first.split()[0]}"] = methods[first]
        rows: list[tuple[str, ...]] = [
            (title, *(_difference(own, baseline) for baseline in baselines.values()))
            for title, own in methods.items()
            if title != ZERO_SHOT
        ]
        title = f"{stream_title(group)}: differences, 95 % intervals"
        tables.append(_table("differences", title, ("method", *baselines), rows))
    return tables


def _difference(own: Mapping[int, CorrectSteps], other: Mapping[int, CorrectSteps] | None) -> str:
    """Return the difference in accuracy from another method, or from zero-shot for None, with its interval."""
    seeds = [seed for seed in own if (other is None or seed in other) and len(own[seed].images)]
    if own is other or not seeds:
        return ABSENT
    baseline = {seed: own[seed].zero_shot_correct if other is None else other[seed].correct for seed in seeds}
    interval = paired_interval(
        [own[seed].correct.astype(float) - baseline[seed] for seed in seeds], [own[seed].images for seed in seeds]
    )
    return f"{format_points(interval.mean)} [{format_points(interval.low)}, {format_points(interval.high)}]"
