from __future__ import annotations

import pickle
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from cosmic_tta.data.datasets import CATALOGUE
from cosmic_tta.data.datasets.registry import load_published, problems
from cosmic_tta.data.images.decode import open_image
from cosmic_tta.data.prompts import ENSEMBLE, class_sentences
from tests.support.paths import ROOT
from tests.support.trees import TREES, Expected, resized

Build = Callable[[Path], Expected]


def test_the_catalogue_has_the_fifteen_of_the_paper() -> None:
    assert len(CATALOGUE) == 15
    assert {key for key, _ in TREES} == set(CATALOGUE)
    assert sum(row.classes for row in CATALOGUE.values()) == 1000 * 3 + 200 * 2 + 1191
    assert CATALOGUE["sun397"].templates == ENSEMBLE
    assert CATALOGUE["imagenet_sketch"].sizes == {"test": 50_889}


def test_the_page_on_data_sets_counts_as_the_catalogue_does() -> None:
    page = (ROOT / "docs" / "guide" / "datasets.md").read_text(encoding="utf-8")
    for row in CATALOGUE.values():
        sizes = [f"{row.sizes[split]:,}" if split in row.sizes else "–" for split in ("train", "val", "test")]
        assert re.search(rf"\| `{row.key}` \| `{row.folders[0]}`.* \| {row.classes:,} \| {' . '.join(sizes)} \|", page)
        for layout in row.layouts:
            for size in (layout.sizes or {}).values():
                assert f"{size:,}" in page
    for code in re.findall(r"```python\n(from cosmic_tta.data.prompts.*?)```", page, flags=re.DOTALL):
        exec(code)


@pytest.mark.parametrize(("key", "build"), TREES, ids=lambda value: getattr(value, "__name__", value))
def test_a_data_set_loads_as_it_is_laid_out(key: str, build: Build, tmp_path: Path) -> None:
    expected = build(tmp_path)
    row = resized(key, expected)
    for split, pairs in expected.splits.items():
        data = load_published(row, tmp_path, split)
        assert (data.name, data.split, data.class_names) == (key, split, expected.class_names)
        assert [(item.key, item.label) for item in data.items] == pairs
        assert not [note for note in data.notes if "missing" in note or "partial" in note]
        assert data.templates == CATALOGUE[key].templates
        for item in data.items:
            assert open_image(pickle.loads(pickle.dumps(item)).read()).size == (4, 3)
    assert [problem for _, problem in problems(row, tmp_path)] == [""] * len(expected.splits)
    texts = class_sentences(data.class_names, data.templates)
    assert all(len(own) == len(data.templates) for own in texts)
    assert not any("_" in text or "n0" in text for own in texts for text in own)


def test_the_sizes_are_those_of_the_paper(paper_source: str) -> None:
    table = paper_source[
        paper_source.index("Dataset Summary for Various") : paper_source.index(r"\label{tab:datasets}")
    ]
    rows = {row.title: row for row in CATALOGUE.values()}
    lines = re.findall(r"^\s*([\w-]+)~\\cite\{[^}]*\} & (.*) \\\\", table, flags=re.MULTILINE)
    assert len(lines) == 15
    for title, cells in lines:
        classes, *sizes, task = cells.split(" & ")
        assert (rows[title].classes, rows[title].task) == (int(classes.replace(",", "")), task.strip())
        for split, size in zip(("train", "val", "test"), sizes, strict=True):
            count = rows[title].sizes.get(split)
            written = "-" if count is None else f"{count / 1e6:.2f}M" if count > 1e6 else f"{count:,}"
            assert written == size
