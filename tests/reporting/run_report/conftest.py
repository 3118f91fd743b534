from __future__ import annotations

import pytest

from cosmic_tta.evaluation.run_folder import SavedRun
from cosmic_tta.features.pack import FeaturePack
from tests.support.saved_runs import save_and_read


@pytest.fixture(scope="session")
def runs(pack: FeaturePack, tmp_path_factory: pytest.TempPathFactory) -> list[SavedRun]:
    """One saved run of each of five methods."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    return save_and_read(folder, pack, "zero_shot", "tda", "dmn", "cosmic", "bayes_means")


@pytest.fixture(scope="session")
def cosmic_run(runs: list[SavedRun]) -> SavedRun:
    (run,) = [run for run in runs if run.report.method == "cosmic"]
    return run


@pytest.fixture(scope="session")
def unlabelled_runs(pack: FeaturePack, tmp_path_factory: pytest.TempPathFactory) -> list[SavedRun]:
    unlabelled = FeaturePack(pack.name, pack.class_names, pack.clip, pack.text, pack.aux)
    return save_and_read(tmp_path_factory.mktemp("unlabelled") / "run", unlabelled, "cosmic")
