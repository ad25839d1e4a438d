"""Benchmarks that read files of their own, and files cut between training and test."""

import json
from pathlib import Path

from decomposerl.claims.claim import Draft
from fakes import MemoryCorpora, MemoryPages
from native_rows import BENCHMARK, SOUND, SOURCE, bench, faults, only
from resources.corpora.folder import FolderCorpora


def test_hover_test_claims_have_no_label():
    """The test file is a list of claims."""
    hover = BENCHMARK["hover"]
    (file,) = hover.claim_lists
    draft = only(list(hover.read(MemoryCorpora({file.path: [{"uid": "t", "claim": "C."}]}), file)))
    assert ("C.", None, ()) == (draft.claim, draft.native_label, draft.passages)


def test_pubmedclaim_splits_by_the_official_test_ids():
    """Train and test halves of one file are disjoint and complete; no ids, no rows."""
    source, (test,) = SOURCE["pubmedclaim"], BENCHMARK["pubmedclaim"].files
    train = source.files[0]
    rows = [{**SOUND["pubmedclaim"][1], "_key": key} for key in ("1", "2", "3")]
    truth = [{"_key": "2", "_value": "yes"}]
    files = MemoryCorpora({train.path: rows, "pubmedqa/test_ground_truth.json": truth})
    halves = [
        [one.native_id for one in source.read(files, file) if isinstance(one, Draft)]
        for file in (train, test)
    ]
    assert [["1", "3"], ["2"]] == halves
    unsplit = MemoryCorpora({train.path: rows})
    assert [(0, "", "dangling_reference")] == faults(list(source.read(unsplit, train)))


def test_pubmedclaim_reads_the_official_ids_as_published(tmp_path: Path):
    """The published id file maps PMID to a word, not to an object."""
    source, folder = SOURCE["pubmedclaim"], tmp_path / "pubmedqa"
    folder.mkdir()
    rows = {key: dict(SOUND["pubmedclaim"][1]) for key in ("1", "2", "3")}
    (folder / "ori_pqal.json").write_text(json.dumps(rows, indent=1), "utf-8")
    (folder / "test_ground_truth.json").write_text('{\n "1": "no",\n "3": "yes"\n}', "utf-8")
    draft = only(list(source.read(FolderCorpora(tmp_path), source.files[0])))
    assert "2" == draft.native_id


def test_fever_joins_the_annotated_sentences():
    """Distinct sentences of all sets, titles decoded; a missing one leaves no evidence."""
    evidence = [
        [[1, 2, "Orla_-LRB-opera-RRB-", 1]],
        [[1, 3, "Orla_-LRB-opera-RRB-", 1], [1, 4, "Bram", 0]],
    ]
    row = {"id": 1, "claim": "C.", "label": "SUPPORTS", "evidence": evidence}
    texts = {"Orla_-LRB-opera-RRB-": ["Zero.", "One -LRB- I -RRB- ."], "Bram": ["Two."]}
    draft = only(bench("fever", 0, row, {"fever/fever.db": MemoryPages(texts)}))
    assert ("Orla (opera): One ( I ) .", "Bram: Two.") == draft.passages
    assert ("Orla (opera)", "Bram") == draft.documents
    short = {"fever/fever.db": MemoryPages({**texts, "Bram": []})}
    assert () == only(bench("fever", 0, row, short)).passages
    nothing = {**row, "label": "NOT ENOUGH INFO", "evidence": [[[1, None, None, None]]]}
    assert () == only(bench("fever", 0, nothing)).documents
    assert [(1, "evidence", "missing_field")] == faults(
        bench("fever", 0, {**row, "evidence": [["x"]]})
    )


def test_fever_symmetric_pairs_claim_and_sentence():
    """The claim is ``sentence2``, the evidence ``sentence1``, brackets decoded."""
    row = {
        "id": "5",
        "sentence1": "One -LRB- I -RRB- .",
        "sentence2": "C .",
        "gold_label": "REFUTES",
    }
    draft = only(bench("fever", 1, row))
    assert ("C .", ("One ( I ) .",), "REFUTES") == (draft.claim, draft.passages, draft.native_label)
    assert ("fever_symmetric", "fever_symmetric-5") == (draft.subset, draft.native_id)


def test_coverbench_labels_are_truth_values():
    """True is supported; a number is no truth value."""
    row = {"claim": "C.", "context": "a | b\nOne. Two.", "label": True}
    draft = only(bench("coverbench", 0, row))
    assert (("a | b", "One.", "Two."), "true") == (draft.passages, draft.native_label)
    assert [(1, "label", "missing_field")] == faults(bench("coverbench", 0, {**row, "label": 1}))
