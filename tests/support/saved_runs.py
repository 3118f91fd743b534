"""Runs of methods, written to a run folder and read back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cosmic_tta import make_method
from cosmic_tta.core.method import Method
from cosmic_tta.evaluation.evaluator import run_evaluation
from cosmic_tta.evaluation.run_folder import RunFolder, RunRecorder, SavedRun, read_runs
from cosmic_tta.features.pack import FeaturePack


def save_and_read(
    folder: Path, pack: FeaturePack, *methods: str | Method[Any], order: str = "shuffle"
) -> list[SavedRun]:
    """Run methods, given by name or as objects, over a pack; save the runs to a folder and read them."""
    writer = RunFolder.begin(folder)
    for method in methods:
        recorder = RunRecorder()
        method = make_method(method) if isinstance(method, str) else method
        writer.add(run_evaluation(method, pack, watch=recorder), recorder)
    writer.finish()
    return read_runs(folder)
