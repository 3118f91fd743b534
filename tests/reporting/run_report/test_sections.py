"""All sections of a report together."""

from __future__ import annotations

from dataclasses import replace

from cosmic_tta.evaluation.run_folder import SavedRun
from cosmic_tta.reporting.run_report import report_sections


def test_every_section_has_its_charts(runs: list[SavedRun]) -> None:
    sections = {section.name: section for section in report_sections(runs)}
    assert list(sections) == ["accuracy", "confusion", "fusion-weights", "graphs", "changed-cases"]
    kinds = {name: [chart.kind for chart in section.charts] for name, section in sections.items()}
    assert kinds["accuracy"] == ["lines"]
    assert kinds["confusion"] == ["heatmap", "lines", "bars"]
    assert kinds["fusion-weights"] == ["heatmap"]
    assert kinds["graphs"] == ["network"] * 2 + ["points"] * 4
    names = [chart.name for section in sections.values() for chart in section.charts]
    assert len(names) == len(set(names))


def test_without_labels_there_are_predictions_but_no_accuracy(unlabelled_runs: list[SavedRun]) -> None:
    sections = report_sections(unlabelled_runs)
    assert [section.name for section in sections] == ["accuracy", "graphs", "changed-cases"]
    assert not sections[0].charts
    assert all(row[1] == "–" for row in sections[-1].tables[0].rows)


def test_several_packs_have_sections_of_their_own(runs: list[SavedRun]) -> None:
    other = [replace(run, report=replace(run.report, pack="other")) for run in runs]
    titles = [section.title for section in report_sections([*runs, *other])]
    assert len(titles) == 1 + 2 * 4
    assert "Confusion and calibration: other" in titles
