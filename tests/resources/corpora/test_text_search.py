"""Finding evidence in a folder: what bears on the claim, best first, and nothing else."""

from pathlib import Path

import pytest

from decomposerl.errors import SourceFileError
from fakes import BagOfWordsEmbedder, ScriptedEmbedder
from resources.corpora.text_search import Passage, TextSearch

bm25s = pytest.importorskip("bm25s", reason="bm25s is not installed (extra retrieve)")

BROWN = "Ada Brown was a Danish swimmer. She was born in Odense."
BRIDGE = "The Osk bridge was designed by Oskar Lund and opened in 1871."
LONG = " ".join(
    f"Sentence number {n} is about the river Osk and its many ferries." for n in range(40)
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    home = tmp_path / "texts"
    (home / "more").mkdir(parents=True)
    (home / "people.txt").write_text(f"Brown is a colour.\n\n{BROWN}\n", "utf-8")
    (home / "more/bridges.md").write_text(f"# Bridges\n\n{BRIDGE}\n\n{LONG}", "utf-8")
    (home / "image.png").write_bytes(b"\x89PNG")
    return home


def test_the_nearest_passage_comes_first(folder: Path):
    """Paragraphs are passages; files of folders below count, other kinds of file do not."""
    (folder / "notes.md").mkdir()
    (folder / "notes.md/one.txt").write_text("Torbeck has a river.")
    search = TextSearch(folder)
    assert "notes.md/one.txt" == search.search("Torbeck has a river.")[0].file
    found = search.search("Ada Brown, the swimmer, was born in Odense.")
    assert Passage(BROWN, "people.txt") == found[0]
    assert Passage(BRIDGE, "more/bridges.md") == search.search("Who designed the Osk bridge?")[0]


def test_long_paragraphs_are_cut_at_sentences(folder: Path):
    """Each part holds whole sentences, and no more are given than were asked for."""
    found = TextSearch(folder).search("Many ferries cross the river Osk.", most=3)
    assert 3 == len(found)
    assert all(one.text.startswith("Sentence number") for one in found)
    assert all(len(one.text.split()) < 150 and one.text.endswith("ferries.") for one in found)


CLAIM = "Many ferries cross the river Osk."


def test_an_embedder_ranks_what_is_relevant_again(folder: Path):
    """By the cosine to the claim; what BM25 put last comes first, and nothing else is added."""
    plain = TextSearch(folder).search(CLAIM, most=50)
    last = plain[-1]
    near = {CLAIM: (1.0, 0.0)} | {one.text: (1.0, 2.0) for one in plain} | {last.text: (1.0, 0.1)}
    search = TextSearch(folder, ScriptedEmbedder(near))
    found = search.search(CLAIM, most=50)
    assert last == found[0] != plain[0]
    assert plain[:-1] == found[1:], "equal cosines keep BM25's order"
    assert found[:2] == search.search(CLAIM, most=2)
    assert ("BM25, then scripted-embedder", "BM25") == (search.ranking, TextSearch(folder).ranking)


def test_a_ranking_by_vectors_is_the_same_every_time(folder: Path):
    """Also in another object, and where nothing or one passage is relevant."""
    found = [TextSearch(folder, BagOfWordsEmbedder()).search(CLAIM) for _ in range(2)]
    assert found[0] == found[1]
    embedder = BagOfWordsEmbedder()
    assert [] == TextSearch(folder, embedder).search("Marie Curie discovered radium.")
    assert [] == embedder.asked


@pytest.mark.parametrize(
    "claim",
    [
        "Marie Curie discovered radium.",  # no word in common
        "Paul Smith was born in a swimmer's family.",  # words, but not the name
        "The treaty was signed by seventeen delegates of nine countries near a bridge.",
        "",
        "of the",
    ],
)
def test_what_bears_on_nothing_finds_nothing(claim: str, folder: Path):
    """A shared word alone is not relevant."""
    assert [] == TextSearch(folder).search(claim)


def test_what_cannot_be_searched_is_named(tmp_path: Path):
    """No folder, no text, and a file that is not text."""
    with pytest.raises(SourceFileError, match="absent"):
        TextSearch(tmp_path / "absent").search("A claim.")
    with pytest.raises(SourceFileError, match=r"\.md or \.pdf or \.txt"):
        TextSearch(tmp_path).search("A claim.")
    (tmp_path / "a.txt").write_bytes(b"\xff\xfe")
    with pytest.raises(SourceFileError, match=r"a\.txt"):
        TextSearch(tmp_path).search("A claim.")


def test_bad_files_are_named_and_the_others_searched(folder: Path, tmp_path: Path):
    """No text, binary, too large, a link out of the folder: each has its reason."""
    outside = tmp_path / "outside.txt"
    outside.write_text("Ada Brown was born in Odense.", "utf-8")
    (folder / "b.txt").write_bytes(b"\xff\xfe")
    (folder / "c.md").write_bytes(b"Ada Brown\0")
    (folder / "d.txt").symlink_to(outside)
    with (folder / "e.txt").open("wb") as large:
        large.truncate(20_000_001)
    search = TextSearch(folder)
    assert {"d.txt"} & {one.file for one in search.search("Ada Brown was born in Odense.")} == set()
    assert [Path(line.split()[0]).name for line in search.problems] == [
        *("b.txt", "c.md", "d.txt", "e.txt")
    ]
    limited = TextSearch(folder)
    limited._left = 40  # of the bytes that all files may have
    with pytest.raises(SourceFileError):
        limited.search("Ada Brown was born in Odense.")
    left_out = {Path(line.split()[0]).name for line in limited.problems if "all have" in line}
    assert {"e.txt"} < left_out
