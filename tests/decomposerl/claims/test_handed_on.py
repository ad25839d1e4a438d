"""A corpus that is handed on as it is read: the same rows, and never all of them in memory."""

from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from decomposerl.claims.claim_collector import HANDED_ON
from decomposerl.claims.generic import parse_source_toml
from decomposerl.claims.load import LoadSettings, load_source
from decomposerl.errors import TooManyRejects
from resources.corpora.folder import FolderCorpora
from toy_corpus import SOURCE, corpus

SETTINGS = LoadSettings()


def test_claims_are_handed_on_in_order_while_they_are_read(tmp_path: Path):
    """Together they are the claims of a reading at once; what else is found is the same."""
    files = FolderCorpora(corpus(tmp_path, 2 * HANDED_ON + 100))
    source = parse_source_toml(SOURCE, "toy/source.toml")
    parts: list[pl.DataFrame] = []
    whole = load_source(source, None, files, SETTINGS)
    streamed = load_source(source, None, files, SETTINGS, parts.append)
    assert [HANDED_ON, HANDED_ON, 100] == [part.height for part in parts]
    assert_frame_equal(whole.claims, pl.concat(parts))
    assert_frame_equal(whole.claims.clear(), streamed.claims)
    assert whole.rows_read == streamed.rows_read == whole.claims.height
    assert_frame_equal(whole.drops, streamed.drops)
    assert_frame_equal(whole.rejects, streamed.rejects)


def test_a_repeat_is_found_although_the_first_was_handed_on(tmp_path: Path):
    """An id that stood thousands of rows before is a reject, and too many of them an error."""
    folder = corpus(tmp_path, HANDED_ON + 10)
    path = folder / "toy" / "claims.jsonl"
    lines = path.read_text("utf-8").splitlines()
    source = parse_source_toml(SOURCE, "toy/source.toml")
    path.write_text("\n".join([*lines, *lines[:5]]), "utf-8")
    parts: list[pl.DataFrame] = []
    loaded = load_source(source, None, FolderCorpora(folder), SETTINGS, parts.append)
    assert HANDED_ON + 10 == sum(part.height for part in parts)
    assert ["duplicate_id"] * 5 == loaded.rejects["reason"].to_list()
    path.write_text("\n".join([*lines, *lines[:500]]), "utf-8")
    with pytest.raises(TooManyRejects):
        load_source(source, None, FolderCorpora(folder), SETTINGS, parts.append)
