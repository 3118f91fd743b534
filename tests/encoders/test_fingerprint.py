from __future__ import annotations

from pathlib import Path

import pytest

from cosmic_tta.encoders import make_encoder
from cosmic_tta.encoders.fingerprint import file_fingerprint, fingerprint

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
tiny = pytest.importorskip("tests.support.tiny_encoders")
pytestmark = pytest.mark.torch


def test_a_fingerprint_follows_the_weights_and_their_numbers(folders: dict[str, Path], tmp_path: Path) -> None:
    one = make_encoder(f"hf:{folders['dinov2']}")
    again = make_encoder(f"hf:{tiny.save_dinov2(tmp_path / 'again')}")
    model = transformers.AutoModel.from_pretrained(folders["dinov2"])
    with torch.no_grad():
        model.layernorm.bias[3] += 1e-3
    model.save_pretrained(tmp_path / "other")
    other = make_encoder(f"hf:{tmp_path / 'other'}")
    half = make_encoder(f"hf:{folders['dinov2']}", dtype="bfloat16")
    assert one.fingerprint == again.fingerprint
    assert len({one.fingerprint, other.fingerprint, half.fingerprint}) == 3
    assert len(one.fingerprint) == 32


def test_the_order_of_tensors_does_not_matter_their_names_do() -> None:
    one, two = torch.arange(6).reshape(2, 3), torch.ones(2, dtype=torch.bfloat16)
    assert fingerprint({"a": one, "b": two}) == fingerprint({"b": two, "a": one})
    assert fingerprint({"a": one, "b": two}) != fingerprint({"a": two, "b": one})
    assert fingerprint({"a": one}) != fingerprint({"a": one.reshape(3, 2)})
    assert fingerprint({"a": one}) != fingerprint({"a": one.to(torch.int32)})


def test_files_are_hashed_by_name_and_bytes(tmp_path: Path) -> None:
    for name, content in (("a", b"x"), ("b", b"x"), ("c", b"y")):
        (tmp_path / name).write_bytes(content)
    assert file_fingerprint({"a": tmp_path / "a"}) == file_fingerprint({"a": tmp_path / "b"})
    assert file_fingerprint({"a": tmp_path / "a"}) != file_fingerprint({"b": tmp_path / "a"})
    assert file_fingerprint({"a": tmp_path / "a"}) != file_fingerprint({"a": tmp_path / "c"})
