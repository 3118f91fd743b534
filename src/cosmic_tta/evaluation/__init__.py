"""Evaluation: streams, metrics, plans, jobs, sweeps and benchmarks. Reads the labels of streams, after the answers.

Imports `sessions`, `training`, `methods`, `features` and `core`. `reporting`, `distributed` and `cli` import it.

>>> from cosmic_tta.evaluation import run_evaluation
>>> from cosmic_tta.features.synthetic import superclass_pack
>>> from cosmic_tta.methods import make_method
>>> run_evaluation(make_method("zero_shot"), superclass_pack(images=20)).report.n
20
"""

from cosmic_tta.evaluation.benchmark import BenchmarkPlan, find_packs
from cosmic_tta.evaluation.benchmark_summary import average_seeds, summarize_benchmark
from cosmic_tta.evaluation.evaluator import EvaluationProgress, EvaluationRun, evaluate, run_evaluation
from cosmic_tta.evaluation.grid import read_grid
from cosmic_tta.evaluation.jobs import Job, run_job
from cosmic_tta.evaluation.metrics import Interval, compute_metrics, paired_interval
from cosmic_tta.evaluation.oracle import oracle_fusion
from cosmic_tta.evaluation.plan import EvaluationPlan
from cosmic_tta.evaluation.report import Report
from cosmic_tta.evaluation.run_folder import RunFolder, RunRecorder, SavedRun, read_runs
from cosmic_tta.evaluation.streams import STREAMS, EvaluationStream, StreamKind, make_stream
from cosmic_tta.evaluation.sweep import SweepResult, sweep
from cosmic_tta.evaluation.temperature import fit_temperature

__all__ = [
    "STREAMS",
    "BenchmarkPlan",
    "EvaluationPlan",
    "EvaluationProgress",
    "EvaluationRun",
    "EvaluationStream",
    "Interval",
    "Job",
    "Report",
    "RunFolder",
    "RunRecorder",
    "SavedRun",
    "StreamKind",
    "SweepResult",
    "average_seeds",
    "compute_metrics",
    "evaluate",
    "find_packs",
    "fit_temperature",
    "make_stream",
    "oracle_fusion",
    "paired_interval",
    "read_grid",
    "read_runs",
    "run_evaluation",
    "run_job",
    "summarize_benchmark",
    "sweep",
]
