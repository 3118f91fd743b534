from __future__ import annotations

from collections.abc import Callable

from cosmic_tta.features.pack import FeaturePack
from cosmic_tta.reporting.chart_data import ResultSet
from cosmic_tta.reporting.paper import ExperimentContext
from cosmic_tta.reporting.paper import costs as costs_module
from cosmic_tta.reporting.paper.costs import MEASURED_METHODS, embedded_encoder_costs, encoder_cost

RunSmall = Callable[..., ResultSet]


def test_an_encoder_has_a_time_and_a_size() -> None:
    for kind in ("clip", "aux"):
        cost = encoder_cost(kind)
        assert cost.ms_per_view > 0
        assert 0.01 < cost.weights_mb < 100


def test_only_the_embedded_encoders_are_measured(small: FeaturePack) -> None:
    assert embedded_encoder_costs(ExperimentContext((small,))) is None
    found = embedded_encoder_costs(ExperimentContext())
    assert found is not None
    assert len(found) == 2


def test_efficiency_has_a_row_per_method_that_can_run(run_small: RunSmall) -> None:
    results = run_small("efficiency")
    (table,) = results.tables
    assert [row[0] for row in table.rows] == [method.title for method in MEASURED_METHODS if method.title != "TPT"]
    assert "with encoding (ms)" not in table.columns  # a pack does not record it
    rows = {row[0]: dict(zip(table.columns, row, strict=True)) for row in table.rows}
    assert rows["TDA"]["views"] == 4  # all that the pack has
    assert rows["TDA"]["published views"] == 64
    assert rows["TDA"]["published ms"] == 119.0
    assert rows["COSMIC"]["published oracle"] == "82.46 !"
    assert rows["COSMIC as printed"]["published ms"] is None
    assert any(sentence.startswith("TPT: ") for sentence in results.missing)
    assert {series.name for series in results.charts[0].series} == set(rows)


def test_encoding_is_added_for_the_embedded_pack() -> None:
    encoders = (costs_module.EncoderCost(2.0, 1.0), costs_module.EncoderCost(3.0, 1.0))
    by_title = {method.title: method for method in MEASURED_METHODS}
    assert costs_module._encoding_ms(by_title["TDA"], 4, encoders) == 8
    assert costs_module._encoding_ms(by_title["COSMIC"], 4, encoders) == 11


def test_overhead_has_time_storage_and_accuracy_of_every_stage(run_small: RunSmall) -> None:
    own, published = run_small("overhead").tables
    assert [str(row[0]).partition(": ")[2] for row in own.rows] == ["time (ms)", "storage (MB)", "accuracy"] * 2
    assert own.columns == ("ours", "CLIP inference", "TDA overhead", "CLIP graph", "generated graph")
    times, sizes = own.rows[0][2:], own.rows[1][2:]
    assert all(isinstance(value, float) and value >= 0 for value in times)
    assert all(isinstance(value, float) and 0 < value < 1 for value in sizes)
    assert published.rows[0][1] == "12.52"
