from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cosmic_tta.evaluation.run_folder import SavedRun
from cosmic_tta.reporting.run_report.changed_cases import changed_cases_section


def test_the_table_says_what_adaptation_did(cosmic_run: SavedRun) -> None:
    section = changed_cases_section([cosmic_run])
    (table,) = section.tables
    assert table.rows
    assert cosmic_run.labels is not None
    zero_shot = cosmic_run.parts["zero_shot"].argmax(axis=1)
    for number, truth, before, after, effect, *_ in table.rows:
        step = int(str(number)) - 1
        assert truth == cosmic_run.class_names[cosmic_run.labels[step]]
        assert before == cosmic_run.class_names[zero_shot[step]]
        assert after == cosmic_run.class_names[cosmic_run.answers[step]] != before
        expected = (
            "became correct" if after == truth else "became wrong" if before == truth else "wrong before and after"
        )
        assert effect == expected


def test_the_summary_counts_all_changes(cosmic_run: SavedRun) -> None:
    (note,) = changed_cases_section([cosmic_run]).notes
    zero_shot = cosmic_run.parts["zero_shot"].argmax(axis=1)
    changed = cosmic_run.answers != zero_shot
    corrected = int((changed & (cosmic_run.answers == cosmic_run.labels)).sum())
    assert f"disagree on {int(changed.sum())} of 120 images. {corrected} predictions became correct" in note


def test_images_are_shown_by_what_adaptation_did(cosmic_run: SavedRun) -> None:
    steps = cosmic_run.changed_steps[:4]
    with_images = replace(cosmic_run, image_steps=steps, images=np.zeros((len(steps), 8, 8, 3), np.uint8))
    charts = changed_cases_section([with_images]).charts
    assert sum(len(chart.images) for chart in charts) == len(steps)
    for chart in charts:
        assert chart.kind == "images"
        assert all(" → " in caption for _, caption in chart.images)


def test_embedded_encoders_have_saliency_maps(cosmic_run: SavedRun) -> None:
    pixels = np.random.default_rng(0).integers(256, size=(1, 32, 32, 3), dtype=np.uint8)
    run = replace(
        cosmic_run,
        clip_model="mini:clip",
        aux_model="mini:dino",
        image_steps=cosmic_run.changed_steps[:1],
        images=pixels,
    )
    chart = changed_cases_section([run]).charts[-1]
    assert chart.title == "Saliency maps of the encoders"
    assert len(chart.images) == chart.images_per_row == 5


def test_a_run_that_changed_nothing_has_an_empty_section(runs: list[SavedRun]) -> None:
    (zero_shot,) = [run for run in runs if run.report.method == "zero_shot"]
    section = changed_cases_section([zero_shot])
    assert not section.tables
    assert not section.charts


@pytest.mark.parametrize("labelled", [True, False])
def test_an_unlabelled_change_has_no_effect(cosmic_run: SavedRun, labelled: bool) -> None:
    run = cosmic_run if labelled else replace(cosmic_run, labels=None)
    (table,) = changed_cases_section([run]).tables
    assert ({row[4] for row in table.rows} == {"–"}) == (not labelled)
