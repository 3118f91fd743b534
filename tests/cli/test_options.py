from __future__ import annotations

import pytest

from cosmic_tta.cli.options import parse_names, parse_seeds, uses_ray
from cosmic_tta.core.errors import InputError, UnknownNameError


def test_an_unknown_engine_and_an_address_without_ray_are_refused() -> None:
    assert not uses_ray("local", None)
    with pytest.raises(UnknownNameError, match="did you mean 'local'"):
        uses_ray("locl", None)
    with pytest.raises(InputError, match="--address is for --engine ray"):
        uses_ray("local", "auto")


@pytest.mark.parametrize(
    ("text", "message"),
    [("", "whole numbers"), ("1,x", "given '1,x'"), ("-1", "from 0 on"), ("1,1", "--seeds: given twice: 1")],
)
def test_wrong_seeds_are_refused(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_seeds(text)


def test_a_list_of_names_is_neither_empty_nor_repeats_a_name() -> None:
    with pytest.raises(InputError, match="--method is empty"):
        parse_names("--method", " , ")
    with pytest.raises(InputError, match="--method: given twice: tda"):
        parse_names("--method", "tda,dmn,tda")
