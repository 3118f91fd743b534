from __future__ import annotations

from cosmic_tta.reporting.paper import ExperimentContext, run_experiment
from cosmic_tta.reporting.paper.embedded_packs import embedded_pack


def test_every_example_has_maps_of_both_encoders(few_images: None) -> None:
    results = run_experiment("attention", ExperimentContext((embedded_pack(80),), seeds=(0,)))
    (chart,) = results.charts
    assert not results.missing
    assert len(chart.images) == 2 * chart.images_per_row == 10
    headings = [caption.split("\n")[0] for _, caption in chart.images[:5]]
    assert headings[0].startswith("true class: ")
    assert headings[1:] == [
        "CLIP, token map",
        "CLIP, occlusion map",
        "auxiliary, token map",
        "auxiliary, occlusion map",
    ]
    assert chart.images[1][1].split("\n")[1].startswith("zero-shot: ")
    assert chart.images[3][1].split("\n")[1].startswith("COSMIC: ")
    assert {pixels.shape for pixels, _ in chart.images} == {(160, 160, 3)}
