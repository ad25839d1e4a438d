"""The bar of a build of pages."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from decomposerl.claims.page_dumps import PAGE_SETS
from decomposerl.progress import Bar, watched
from made_dumps import jsonl_zip
from resources.corpora.page_build import build_pages

SETS = {one.name: one for one in PAGE_SETS}


@pytest.fixture
def bars() -> Iterator[dict[str, Bar]]:
    """Every bar that was open, by its name."""
    seen: dict[str, Bar] = {}
    with watched(lambda shown: seen.update((one.what, one) for one in shown)):
        yield seen


def test_progress_is_in_megabytes_of_the_dump(tmp_path: Path, bars: dict[str, Bar]):
    """The bar ends at the dump's size, so that rate and time left are those of the dump."""
    files = {
        f"wiki-pages/wiki-00{member}.jsonl": [
            {"id": f"{member}-{n}", "text": os.urandom(2_000).hex(), "lines": ""}
            for n in range(900)
        ]
        for member in range(3)
    }
    dump = jsonl_zip(tmp_path / "wiki-pages.zip", files)
    build_pages(SETS["fever"], dump, tmp_path / "f.db")
    bar = bars["fever pages"]
    assert ("MB", dump.stat().st_size // 1_000_000) == (bar.unit, bar.total)
    assert 5 <= bar.total - 1 <= bar.done <= bar.total
