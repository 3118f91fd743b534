"""The gain over zero-shot per method and stream of a benchmark, and parameters chosen on other data sets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import NamedTuple

import numpy as np

from cosmic_tta.core.errors import InputError
from cosmic_tta.evaluation.metrics import BOOTSTRAP_DRAWS
from cosmic_tta.evaluation.report import Report

ALL_STREAMS = "all streams"
MIN_SETTINGS = 2  # below, there is no interval over settings


class Setting(NamedTuple):
    """What a method is judged on: a pack with a kind of auxiliary features.

    >>> str(Setting("pets", "none"))
    'pets / none'
    """

    pack: str
    aux: str

    def __str__(self) -> str:
        return f"{self.pack} / {self.aux}"


@dataclass(frozen=True)
class SettingResult:
    """One method on one stream of one setting, as the mean over seeds. Metrics are fractions of one."""

    method: str
    stream: str
    setting: Setting
    gain: float
    ece: float
    auroc: float | None
    ms: float


@dataclass(frozen=True)
class MethodSummary:
    """One method on a stream, over settings. Metrics are fractions of one.

    Args:
        method: The method, with the parameters that differ from its preset.
        results: How many results are averaged, one per setting and stream.
        gain: The mean gain over zero-shot.
        low: Lower end of the 95 % interval of the mean; None for a single setting.
        high: Upper end.
        worst: The lowest gain.
        worst_at: Setting and stream of the lowest gain.
        rank: The mean rank among the methods by gain; 1 is the best, equal gains share their mean rank.
        ece: The mean expected calibration error.
        auroc: How well scores separate known from unknown images; None without unknown ones.
        ms: The mean time of a step in milliseconds.
    """

    method: str
    results: int
    gain: float
    low: float | None
    high: float | None
    worst: float
    worst_at: str
    rank: float
    ece: float
    auroc: float | None
    ms: float


def average_seeds(reports: Iterable[Report]) -> list[SettingResult]:
    """Average the reports with metrics over seeds, per method, stream and setting.

    Example:
        >>> from cosmic_tta.evaluation import run_evaluation
        >>> from cosmic_tta.features.synthetic import superclass_pack
        >>> from cosmic_tta.methods import make_method
        >>> pack = superclass_pack(images=20)
        >>> runs = [run_evaluation(make_method("tda"), pack, seed=seed) for seed in (0, 1)]
        >>> (result,) = average_seeds(run.report for run in runs)
        >>> result.method, result.stream, str(result.setting)
        ('tda', 'shuffle', 'generated-20 / given')
    """
    groups: dict[tuple[str, str, Setting], list[Report]] = {}
    for report in reports:
        if "gain" in report.metrics:
            groups.setdefault((report.title, report.order, Setting(report.pack, report.aux)), []).append(report)
    return [
        SettingResult(
            *key,
            gain=fmean(report.metrics["gain"] for report in own),
            ece=fmean(report.metrics["ece"] for report in own),
            auroc=_mean([report.metrics["auroc"] for report in own if "auroc" in report.metrics]),
            ms=fmean(report.ms_per_sample for report in own),
        )
        for key, own in groups.items()
    ]


def summarize_benchmark(results: Sequence[SettingResult]) -> dict[str, list[MethodSummary]]:
    """Compare the methods per stream, then over all streams, under the name `ALL_STREAMS`.

    Args:
        results: From `average_seeds`.

    Returns:
        Per stream one summary per method, in order of first appearance.

    Example:
        >>> on = Setting("pets", "none")
        >>> results = [
        ...     SettingResult("a", "shuffle", on, 0.02, 0.1, None, 0.3),
        ...     SettingResult("b", "shuffle", on, -0.01, 0.1, None, 0.3),
        ... ]
        >>> [(row.method, row.gain, row.rank) for row in summarize_benchmark(results)["shuffle"]]
        [('a', 0.02, 1.0), ('b', -0.01, 2.0)]
    """
    streams = dict.fromkeys(result.stream for result in results)
    summary = {stream: _compare([result for result in results if result.stream == stream]) for stream in streams}
    return summary | ({ALL_STREAMS: _compare(results)} if results else {})


def _compare(results: Sequence[SettingResult]) -> list[MethodSummary]:
    ranks = _ranks(results)
    several = len({result.stream for result in results}) > 1
    rows = []
    for method in dict.fromkeys(result.method for result in results):
        own = [result for result in results if result.method == method]
        worst = min(own, key=lambda result: result.gain)
        low, high = mean_interval(own)
        rows.append(
            MethodSummary(
                method,
                len(own),
                fmean(result.gain for result in own),
                low,
                high,
                worst.gain,
                f"{worst.setting}, {worst.stream}" if several else str(worst.setting),
                fmean(ranks[method]),
                fmean(result.ece for result in own),
                _mean([result.auroc for result in own if result.auroc is not None]),
                fmean(result.ms for result in own),
            )
        )
    return rows


def _ranks(results: Sequence[SettingResult]) -> dict[str, list[float]]:
    """Return the ranks of each method among the methods of the same stream and setting."""
    groups: dict[tuple[str, Setting], list[SettingResult]] = {}
    for result in results:
        groups.setdefault((result.stream, result.setting), []).append(result)
    ranks: dict[str, list[float]] = {}
    for group in groups.values():
        gains = np.array([result.gain for result in group])
        for result in group:
            better, equal = int((gains > result.gain).sum()), int((gains == result.gain).sum())
            ranks.setdefault(result.method, []).append(better + (equal + 1) / 2)
    return ranks


def mean_interval(
    results: Sequence[SettingResult], *, level: float = 0.95, draws: int = BOOTSTRAP_DRAWS, seed: int = 0
) -> tuple[float | None, float | None]:
    """Return the interval of one method's mean gain, by resampling settings; each brings all its streams.

    Every method with the same settings gets the same draws.

    Args:
        results: Of one method.
        level: The confidence level.
        draws: The number of bootstrap draws.
        seed: The seed of the draws.

    Returns:
        The ends of the interval; None for a single setting.
    """
    settings = sorted({result.setting for result in results})
    if len(settings) < MIN_SETTINGS:
        return None, None
    gains = [[result.gain for result in results if result.setting == setting] for setting in settings]
    sums, counts = np.array([sum(own) for own in gains]), np.array([len(own) for own in gains])
    rng = np.random.default_rng(seed)
    times = rng.multinomial(len(settings), np.full(len(settings), 1 / len(settings)), draws)  # [draws, settings]
    low, high = np.quantile((times @ sums) / (times @ counts), [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


class LeftOutResult(NamedTuple):
    """A parameter setting that was chosen on other data sets, on the one that was left out.

    >>> LeftOutResult("pets", "tda shots=2", 0.02, 0.01).gain
    0.02
    """

    dataset: str
    chosen: str  # the method with its parameters
    gain: float  # of the chosen one, on the data set that was left out
    default_gain: float


def leave_one_out(results: Sequence[SettingResult], datasets: Mapping[str, str], default: str) -> list[LeftOutResult]:
    """For each data set, choose the parameters with the best mean gain on all others, and measure them on it.

    The gain on a data set is the mean over its settings and streams; every data set counts alike. The default is one
    of the candidates and wins ties. A candidate without all results is not chosen.

    Args:
        results: From `average_seeds`: one method with several parameters.
        datasets: Per name of a pack, the name of its data set.
        default: The candidate to compare with, as `SettingResult.method` names it.

    Returns:
        One result per data set.

    Raises:
        InputError: There are fewer than two data sets, or fewer than two complete candidates.
    """
    names = list(dict.fromkeys(datasets[result.setting.pack] for result in results))
    if len(names) < 2:
        raise InputError(
            f"leaving one data set out takes at least two; these packs are of {len(names)}: {', '.join(names)}. "
            "Packs with the same classes count as one."
        )
    gains = _gains_by_dataset(results, datasets)
    if default not in gains or len(gains) < 2:
        raise InputError(
            f"leaving one data set out compares {default} with at least one other setting of it that has all its "
            f"results; complete are: {', '.join(gains) or 'none'}. Give several values: --set KEY=A,B."
        )
    candidates = sorted(gains, key=lambda method: method != default)  # the first of equal ones is taken
    rows = []
    for left in names:
        chosen = max(candidates, key=lambda method: fmean(gains[method][name] for name in names if name != left))
        rows.append(LeftOutResult(left, chosen, gains[chosen][left], gains[default][left]))
    return rows


def _gains_by_dataset(results: Sequence[SettingResult], datasets: Mapping[str, str]) -> dict[str, dict[str, float]]:
    """Return the mean gain per method and data set, of the methods that have all results."""
    places = {(result.stream, result.setting) for result in results}
    found: dict[str, dict[str, list[float]]] = {}
    for result in results:
        own = found.setdefault(result.method, {})
        own.setdefault(datasets[result.setting.pack], []).append(result.gain)
    return {
        method: {name: fmean(gains) for name, gains in own.items()}
        for method, own in found.items()
        if sum(map(len, own.values())) == len(places)
    }


def _mean(values: Sequence[float]) -> float | None:
    return fmean(values) if values else None
