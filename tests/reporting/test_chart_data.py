from __future__ import annotations

import re
from dataclasses import FrozenInstanceError

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosmic_tta.reporting.chart_data import ResultSet, Series, slug


@given(st.lists(st.text(), min_size=1))
def test_a_slug_is_safe_as_a_file_name(words: list[str]) -> None:
    assert re.fullmatch("[a-z0-9]+(-[a-z0-9]+)*|", slug(*words))


def test_a_slug_keeps_letters_and_digits() -> None:
    assert slug("Accuracy", "ViT-B/16, haze 4") == "accuracy-vit-b-16-haze-4"


def test_chart_data_cannot_be_changed() -> None:
    series = Series("a", [1], [2])
    with pytest.raises(FrozenInstanceError):
        series.name = "b"  # type: ignore[misc]
    assert ResultSet("a", "A").settings is not ResultSet("b", "B").settings
