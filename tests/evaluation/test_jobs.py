from __future__ import annotations

import pickle
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cosmic_tta.core.errors import InputError, PackError, StorageError
from cosmic_tta.evaluation import jobs as jobs_module
from cosmic_tta.evaluation.evaluator import EvaluationProgress
from cosmic_tta.evaluation.grid import read_grid
from cosmic_tta.evaluation.jobs import (
    Job,
    fingerprint,
    open_pack,
    register_pack,
    report_file,
    run_and_store,
    run_job,
    samples_file,
    stored_report,
)
from cosmic_tta.features.pack import FeaturePack
from cosmic_tta.features.synthetic import superclass_pack

pytestmark = pytest.mark.pathless


def test_a_digest_depends_on_contents_and_not_on_paths(folder: Path) -> None:
    job = read_grid(folder / "grid.toml").jobs()[0]
    shutil.copytree(folder / "pack", folder / "copy")
    assert replace(job, pack=str(folder / "copy")).digest == job.digest
    assert replace(job, seed=9).digest != job.digest
    assert replace(job, spec="tda").digest != job.digest
    changed = np.load(folder / "copy" / "labels.npy")
    np.save(folder / "copy" / "labels.npy", changed[::-1])
    open_pack.cache_clear()
    fingerprint.cache_clear()
    assert replace(job, pack=str(folder / "copy")).digest != job.digest
    assert pickle.loads(pickle.dumps(job)) == job


def test_a_job_runs_its_method_and_reports_every_step(folder: Path) -> None:
    steps: list[EvaluationProgress] = []
    run = run_job(Job("tda", (("shots", 2),), str(folder / "pack"), seed=3, limit=12), steps.append)
    assert len(steps) == run.report.n == 12
    assert (run.report.title, run.report.seed) == ("tda shots=2", 3)
    np.testing.assert_array_equal(run.order, np.random.default_rng(3).permutation(120)[:12])


def test_joined_packs_are_one_stream_of_several_domains(folder: Path, pack: FeaturePack) -> None:
    replace(pack, name="second").write(folder / "second")
    job = Job("zero_shot", (), str(folder / "pack"), order="switching", joined_packs=(str(folder / "second"),))
    run = run_job(job)
    assert (run.report.pack, run.report.n) == ("generated-20 + second", 240)
    assert job.pack_folders == (str(folder / "pack"), str(folder / "second"))
    assert job.digest != replace(job, joined_packs=()).digest
    assert str(job) == "zero_shot on pack + second, switching, seed 0"


def test_a_guarded_job_is_reported_under_a_preset_of_its_own(folder: Path) -> None:
    job = Job("tda", (), str(folder / "pack"), order="repeated", limit=40)
    guarded = replace(job, guard=True)
    assert run_job(guarded).report.preset == "default+guard"
    assert guarded.digest != job.digest
    assert run_job(guarded).scores.tobytes() != run_job(job).scores.tobytes()
    report = run_and_store(guarded, folder)
    assert stored_report(guarded, folder) == report


def test_a_stored_result_is_read_back_only_for_its_own_job(folder: Path) -> None:
    job = Job("tda", (), str(folder / "pack"), limit=10)
    assert stored_report(job, folder) is None
    report = run_and_store(job, folder, samples=True)
    assert stored_report(job, folder, samples=True) == report
    assert not list(folder.glob(".*"))
    other = replace(job, seed=1)
    shutil.copy(report_file(folder, job), report_file(folder, other))
    assert stored_report(other, folder) is None
    samples_file(folder, job).write_bytes(b"half")
    assert stored_report(job, folder, samples=True) is None
    report_file(folder, job).write_text(report_file(folder, job).read_text()[:50])
    assert stored_report(job, folder) is None


def test_a_report_is_written_after_its_samples(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that is killed between the two leaves samples without a report: the job is not finished."""
    job = Job("tda", (), str(folder / "pack"), limit=10)

    def full_disk(*_: object) -> None:
        raise StorageError("the disk is full.")

    monkeypatch.setattr(jobs_module, "write_atomic", full_disk)
    with pytest.raises(StorageError):
        run_and_store(job, folder, samples=True)
    assert samples_file(folder, job).exists()
    assert stored_report(job, folder, samples=True) is None


def test_a_registered_pack_needs_no_folder(folder: Path, pack: FeaturePack) -> None:
    elsewhere = str(folder / "elsewhere")
    with pytest.raises(PackError, match="no pack at"):
        open_pack(elsewhere)
    register_pack(elsewhere, pack)
    assert open_pack(elsewhere) is pack
    assert fingerprint(elsewhere) == fingerprint(str(folder / "pack"))


def test_a_method_that_does_not_fit_the_pack_is_refused(folder: Path) -> None:
    superclass_pack(images=40, dim=16).write(folder / "shots")
    with pytest.raises(InputError, match="16 wide"):
        Job("tip_adapter", (), str(folder / "pack"), support=str(folder / "shots")).check()
