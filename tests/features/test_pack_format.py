from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from cosmic_tta.core.errors import PackError
from cosmic_tta.features.pack_format import KNOWN_KEYS, check_head, read_array, read_head, read_keys, write_json

HEAD = {"format": 1, "name": "a", "class_names": ["cat"], "clip": {"dim": 4, "views": 2}, "aux": None}


def test_only_format_one_is_read(tmp_path: Path) -> None:
    write_json(tmp_path / "pack.json", HEAD)
    assert read_head(tmp_path) == HEAD
    write_json(tmp_path / "pack.json", HEAD | {"format": 2})
    with pytest.raises(PackError, match="has the format 2; this version reads format 1"):
        read_head(tmp_path)
    write_json(tmp_path / "pack.json", HEAD | {"clip": "ViT"})
    with pytest.raises(PackError, match="'clip' must be a dict; given 'ViT'"):
        read_head(tmp_path)


def test_keys_that_are_not_known_are_refused_by_name(tmp_path: Path) -> None:
    write_json(tmp_path / "pack.json", HEAD | {"made": {"shift": "haze:4"}, "note": ""})
    with pytest.raises(PackError, match=r"pack.json' has keys that this version does not know: 'made', 'note'; make"):
        read_head(tmp_path)
    whole = HEAD | {"logit_scale": 1.0, "prompts": "", "source": "", "licence": "", "provenance": {"any": "thing"}}
    write_json(tmp_path / "pack.json", whole)
    assert read_head(tmp_path) == whole
    assert set(KNOWN_KEYS) == set(whole)


def test_the_header_must_agree_with_the_arrays(tmp_path: Path) -> None:
    clip, aux = np.zeros((3, 2, 4)), np.zeros((3, 5))
    check_head(HEAD, clip, None, tmp_path)
    with pytest.raises(PackError, match="pack.json says clip dim 4, but the array has 7"):
        check_head(HEAD, np.zeros((3, 2, 7)), None, tmp_path)
    with pytest.raises(PackError, match="pack.json says aux dim 6, but the array has 5"):
        check_head(HEAD | {"aux": {"dim": 6}}, clip, aux, tmp_path)
    np.save(tmp_path / "aux.npy", aux)
    with pytest.raises(PackError, match="aux.npy is there, but pack.json says 'aux': null"):
        check_head(HEAD, clip, None, tmp_path)


def test_names_that_are_not_utf8_survive(tmp_path: Path) -> None:
    keys = ("cat.jpg", "bad\udcff.jpg", "grün.jpg")
    write_json(tmp_path / "keys.json", keys)
    assert read_keys(tmp_path / "keys.json") == keys
    json.loads((tmp_path / "keys.json").read_text(encoding="utf-8"))
    assert read_keys(tmp_path / "absent.json") == ()
    for wrong in ("{", '{"a": 1}', "[1]"):
        (tmp_path / "keys.json").write_text(wrong)
        with pytest.raises(PackError, match="cannot be read as JSON|must hold a list of names"):
            read_keys(tmp_path / "keys.json")


def test_arrays_are_mapped_and_damage_is_reported(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.arange(3))
    assert isinstance(read_array(tmp_path / "a.npy"), np.memmap)
    (tmp_path / "a.npy").write_bytes(b"no array")
    with pytest.raises(PackError, match="is truncated or not a .npy file"):
        read_array(tmp_path / "a.npy")
    with pytest.raises(PackError, match="is missing, although pack.json names it"):
        read_array(tmp_path / "b.npy")
