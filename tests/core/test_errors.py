from __future__ import annotations

import pytest

from cosmic_tta.core import errors
from cosmic_tta.core.errors import (
    CosmicError,
    InputError,
    SessionDamagedError,
    install_extra,
    missing_packages,
    refuse_duplicates,
    unknown_name,
)


def test_every_error_has_one_root_and_a_kind_that_python_knows() -> None:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, CosmicError)]
    assert len(kinds) > 10
    builtin = (ValueError, LookupError, OSError, RuntimeError)
    assert all(issubclass(kind, builtin) for kind in kinds if kind is not CosmicError)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("cosmik", "unknown method 'cosmik': did you mean 'cosmic'? Known: cosmic, tda."),
        ("TDA", "unknown method 'TDA': did you mean 'tda'? Known: cosmic, tda."),
        ("zzz", "unknown method 'zzz'. Known: cosmic, tda."),
    ],
)
def test_an_unknown_name_is_answered_with_the_nearest(given: str, said: str) -> None:
    assert str(unknown_name("method", given, iter(["tda", "cosmic"]))) == said


def test_a_name_in_capitals_is_suggested_as_it_is_registered() -> None:
    said = str(unknown_name("encoder", "vit_b", ["ViT-B", "RN50"]))
    assert "did you mean 'ViT-B'?" in said


def test_missing_packages_are_listed_with_their_commands() -> None:
    torch = install_extra("torch")
    assert torch == "pip install 'cosmic-tta[torch]', in a clone pip install -e '.[torch]'"
    assert missing_packages("it needs", ["a"], torch) == f"it needs a, which is not installed. Run: {torch}."
    assert missing_packages("it needs", ["a", "b", "c"], "x") == "it needs a, b and c, which are not installed. Run: x."


def test_a_name_that_is_given_twice_is_refused() -> None:
    refuse_duplicates("--method", ["a", "b"])
    with pytest.raises(InputError, match="--method: given twice: a, b"):
        refuse_duplicates("--method", ["b", "a", "b", "a", "c"])


def test_a_damaged_session_says_how_far_it_can_be_recovered() -> None:
    assert SessionDamagedError("damaged").recoverable is None
    assert SessionDamagedError("damaged", 7).recoverable == 7
