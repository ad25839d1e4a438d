"""What a corpora folder lacks, with the command that gets it."""

from pathlib import Path

from decomposerl.claims.downloads import ACCESS
from resources.corpora.status import corpora_checks, missing_files

SIZES = {
    path: one.size for it in ACCESS.values() for one in it.downloads for path in one.files.values()
}


def place(root: Path, *paths: str) -> None:
    """Files of their published sizes that take no space."""
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        with (root / path).open("wb") as file:
            file.truncate(SIZES.get(path) or 0)


def test_an_empty_folder_names_the_command_of_every_corpus(tmp_path: Path):
    """One note each, none of which stops a run; the bundled sample needs none."""
    assert [] == list(corpora_checks(None))
    summary, *notes = corpora_checks(tmp_path)
    assert "0 of 16 have all their files" == summary.said
    assert {f"decomposerl fetch {name}" for name in ACCESS} == {note.fix for note in notes}
    assert {"note"} == {note.state for note in notes}


def test_what_is_there_is_not_missing(tmp_path: Path):
    """Packed files count; page databases are asked for once the claims are there."""
    place(tmp_path, "scitab/sci_tab.json.gz", *ACCESS["hover"].files(pages=False))
    place(tmp_path, "wice/claim/train.jsonl", "pubmedqa/pqal_train_dev.json")
    found = {note.what: note for note in corpora_checks(tmp_path)}
    assert "scitab" not in found
    assert "decomposerl fetch hover --pages" == found["hover"].fix
    assert "hover/wiki_wo_links.db" in found["hover"].said
    assert "4 of 5 files are missing: wice/claim/dev.jsonl, wice/claim/test.jsonl, …" == (
        found["wice"].said
    )
    assert found["pubmedclaim"].said.endswith("; pubmedqa/pqal_train_dev.json is read")
    # A file that is there in the hub's form is not missing.
    place(tmp_path, "scifact/claims/train.parquet", "scifact/claims/validation/0000.parquet")
    lacking = {note.what: note for note in corpora_checks(tmp_path)}["scifact"]
    assert "1 of 3 files are missing: scifact/corpus.jsonl; " in f"{lacking.said}; "
    place(tmp_path, "hover/wiki_wo_links.db", "scifact/corpus/train.parquet")
    assert () == missing_files(tmp_path, ACCESS["hover"], pages=True)
    assert "3 of 16 have all their files" == next(corpora_checks(tmp_path)).said
    (tmp_path / ACCESS["hover"].downloads[0].name).write_bytes(b"cut")
    damaged = {note.what: note for note in corpora_checks(tmp_path)}["hover"]
    assert ("note", "move it away, then decomposerl fetch hover") == (damaged.state, damaged.fix)
