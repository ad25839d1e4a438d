"""Which file of a corpus is read where it may be there in several forms."""

import re
from pathlib import Path

import polars as pl
import pytest

from decomposerl.claims.catalogue import BENCHMARKS, SOURCES
from decomposerl.claims.source import FORMAT_OF_ENDING, Benchmark, Source, in_form, with_hub
from decomposerl.claims.sources import scifact
from decomposerl.errors import SourceFileError
from native_rows import SOURCE
from project import ROOT
from resources.corpora.folder import FolderCorpora


@pytest.mark.parametrize("member", [*SOURCES, *BENCHMARKS], ids=lambda one: one.name)
def test_no_path_holds_the_forms_of_two_files(member: Source | Benchmark):
    """Else one file would be read as two splits; every other form has a format by its ending."""
    lists = member.extra if isinstance(member, Source) else (*member.shared, *member.claim_lists)
    files = (*member.files, *lists)
    places = [path for file in files for path in (file.path, *file.also)]
    assert len(places) == len(set(places))
    others = [Path(path) for file in files for path in file.also]
    assert all(path.suffix in FORMAT_OF_ENDING for path in others)
    assert all(not path.is_absolute() and ".." not in path.parts for path in others)


def test_the_form_that_is_read_is_stable(tmp_path: Path):
    """Asked again for its own answer, nothing changes; an absent file stays as it is."""
    file = with_hub(SOURCE["scitab"].files[0])
    files = FolderCorpora(tmp_path)
    assert file == in_form(files, file)
    (tmp_path / "scitab").mkdir()
    pl.DataFrame({"a": [1]}).write_parquet(tmp_path / "scitab/train.parquet")
    found = in_form(files, file)
    assert ("scitab/train.parquet", "parquet", ()) == (found.path, found.format, found.also)
    assert found == in_form(files, found)


@pytest.mark.parametrize("shards", [("0000", "0001"), ("x-00000-of-00002", "x-00001-of-00002")])
def test_several_shards_are_refused_and_not_read_in_part(tmp_path: Path, shards: tuple[str, str]):
    """The error names a shard and the file that would be read; a native file comes first."""
    file = with_hub(SOURCE["scitab"].files[0])
    folder = "default/train" if shards[0] == "0000" else "data"
    names = [f"{name.replace('x', 'train')}.parquet" for name in shards]
    (tmp_path / "scitab" / folder).mkdir(parents=True)
    for name in names:
        pl.DataFrame({"a": [1]}).write_parquet(tmp_path / "scitab" / folder / name)
    said = f"scitab/{folder}/{names[1]} is one of several shards; join them as scitab/train.parquet"
    with pytest.raises(SourceFileError, match=said):
        in_form(FolderCorpora(tmp_path), file)
    (tmp_path / file.path).write_text("[]", "utf-8")
    assert file.path == in_form(FolderCorpora(tmp_path), file).path


def test_the_page_names_files_that_are_found():
    """Each path of the hub's table and of the archive is a form of a file of the catalogue."""
    page = (ROOT / "docs/how-to/curate.md").read_text("utf-8")
    section = page.split("### Files of the Hugging Face hub")[1].split("\n## ")[0]
    named = re.findall(r"`(\w+/\S+\.(?:parquet|tsv|jsonl))`", section)
    files = [file for one in (*SOURCES, *BENCHMARKS) for file in one.files]
    found = {path for file in (*files, scifact.CORPUS) for path in (file.path, *file.also)}
    assert 13 == len(named)
    assert set() == set(named) - found
