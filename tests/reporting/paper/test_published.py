from __future__ import annotations

import numpy as np
import pytest

from cosmic_tta.reporting.paper.published import (
    contradiction_notes,
    published_cells,
    published_data,
    published_number,
    published_table,
    reference,
)
from cosmic_tta.reporting.tables import is_oracle_column


def test_the_tables_are_consistent() -> None:
    for name, content in published_data()["tables"].items():
        assert reference(name)
        assert content["description"]
        for row in content["rows"]:
            assert len(row["values"]) == len(content["columns"]), name
            assert len(row.get("deviation", row["values"])) == len(row["values"])
            assert row["backbone"] in ("RN50", "ViT-B/16")
            if row["row"] in ("COSMIC", "DMN"):
                assert row["oracle"] is True
        if name in ("table-ood", "table-cd"):
            for row in content["rows"]:
                datasets = content["columns"].index("Average")
                assert row["values"][datasets] == pytest.approx(np.mean(row["values"][:datasets]), abs=0.011)
        elif content["columns"] == ["accuracy", "gain"]:
            zero_shot = content["rows"][0]["values"][0]
            tolerance = 0.096 if name == "views" else 0.006  # that table's gains are over 66.90, and flagged
            for row in content["rows"][1:]:
                assert row["values"][0] - zero_shot == pytest.approx(row["values"][1], abs=tolerance)


def test_contradictions_are_flagged() -> None:
    contradictions = published_data()["contradictions"]
    values = [{number["value"] for number in contradiction["figures"]} for contradiction in contradictions]
    for wanted in ({58.16, 66.99}, {66.73, 69.91}, {3.67, 3.88}, {94.36, 65.16}):
        assert wanted in values
    for contradiction in contradictions:
        assert len({number["value"] for number in contradiction["figures"]}) > 1
        for number in contradiction["figures"]:
            found = published_number(number["table"], number["row"], number["column"], number["backbone"])
            assert found is not None
            assert (found.value, found.contradicted) == (number["value"], True)
    assert str(published_number("table-ood", "CLIP", "ImageNet", "RN50")) == "58.16 !"
    (note,) = [note for note in contradiction_notes("cache-size") if "RN50 zero-shot on ImageNet" in note]
    assert note.startswith("! The paper contradicts itself on RN50 zero-shot on ImageNet: 58.16 in Table 1, 66.99 in")


def test_a_number_is_in_the_column_of_its_kind() -> None:
    assert published_cells("table-ood", "COSMIC", "ImageNet", "RN50") == (None, "75.19 ± 0.89")
    assert published_cells("table-ood", "TDA", "ImageNet", "RN50") == ("61.35", None)
    assert published_cells("table-ood", "TDA", "no such column") == (None, None)
    assert published_number("efficiency", "CLIP", "gain") is None


def test_a_published_table_separates_tuned_numbers() -> None:
    table = published_table("aux-encoder", "name")
    assert table.title == "As published, Table 5: DINOv2 of three sizes, ImageNet"
    rows = {row[0]: dict(zip(table.columns, row, strict=True)) for row in table.rows}
    assert rows["none"]["accuracy"] == "69.91 !"
    assert rows["ViT-B/14"]["accuracy, oracle"] == "76.73"
    assert rows["ViT-B/14"]["parameters (million)"] == "86"
    assert [column for column in table.columns if is_oracle_column(column)] == ["accuracy, oracle", "gain, oracle"]
