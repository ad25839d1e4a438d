"""The adapters of corpora and benchmarks on invented native rows.

What all owe: sound rows come through, bad ones are quarantined alone.
"""

import json
from pathlib import Path

import pytest

from decomposerl.claims.claim import Draft, Reject
from fakes import MemoryCorpora, MemoryPages
from native_rows import (
    BENCHMARK,
    REQUIRED,
    SOUND,
    SOURCE,
    Row,
    all_files,
    bench,
    faults,
    only,
    read,
)
from resources.corpora.folder import FolderCorpora


def test_a_sound_row_gives_one_draft():
    """Claim, side and place of a sound row come through."""
    for name, (index, row) in SOUND.items():
        draft = only(read(name, [row], index))
        assert draft.claim in {row.get("claim"), row.get("text"), row.get("QUESTION")}
        assert draft.row == 1
        assert draft.native_label is not None
        assert SOURCE[name].labels.side(draft.native_label) is not None
        assert draft.split == all_files(SOURCE[name])[index].split


@pytest.mark.parametrize("damage", ["absent", "null", "wrong type"])
def test_a_damaged_field_is_quarantined_and_its_neighbours_stay(damage: str):
    """An absent, null or wrong-typed field rejects its row alone, naming the field."""
    for name, field in REQUIRED:
        index, row = SOUND[name]
        bad = {key: value for key, value in row.items() if key != field}
        if damage != "absent":
            bad[field] = None if damage == "null" else 1.5
        outcomes = read(name, [row, bad], index)
        ((number, found, reason),) = faults(outcomes)
        assert (2, field, "missing_field") == (number, found.split(".")[0], reason), name
        assert 1 == sum(isinstance(one, Draft) for one in outcomes)


def test_an_unreadable_row_passes_through():
    """What the file reader could not parse is reported once, in its place."""
    for name, (index, row) in SOUND.items():
        broken = Reject(all_files(SOURCE[name])[index].path, 2, "", "malformed_line", "}")
        outcomes = read(name, [row, broken], index)
        assert broken in outcomes, name
        assert [(2, "", "malformed_line")] == sorted(set(faults(outcomes)))


WITHOUT_TEXT: dict[str, Row] = {
    "feverous": {"evidence": " \n"},
    "foolmetwice": {"retrieved_evidence": []},
    "pubhealth": {"main_text": "  "},
    "pubhealthtab": {"table": {"website": "w", "header_horizontal": [], "rows": [["", ""]]}},
    "wice": {"evidence": ["", " "]},
    "scitab": {"table_content_values": [], "table_column_names": [], "table_caption": ""},
    "pubmedclaim": {"CONTEXTS": []},
    "llm_aggrefact": {"doc": "x9 "},
}


def test_evidence_without_text_is_quarantined():
    """A field that is there and holds no text is a fault of the file, named by its first field."""
    for name, change in WITHOUT_TEXT.items():
        index, row = SOUND[name]
        (field, *_) = change
        assert [(1, field, "empty_evidence")] == faults(read(name, [{**row, **change}], index))


def test_ex_fever_takes_page_text_and_never_the_explanation():
    """One passage a golden page; a missing page or database leaves the claim without text."""
    _, row = SOUND["ex_fever"]
    texts = {"Orla_Venn": ["She met Bram.", "", "Twice."], "Bram": ["He met Orla."]}
    whole = {"ex_fever/pages.db": MemoryPages(texts)}
    draft = only(read("ex_fever", [row], databases=whole))
    assert ("She met Bram. Twice.", "He met Orla.") == draft.passages
    assert ("train-1", ("Orla Venn", "Bram")) == (draft.native_id, draft.documents)
    part = {"ex_fever/pages.db": MemoryPages({"Bram": texts["Bram"]})}
    assert () == only(read("ex_fever", [row], databases=part)).passages
    assert () == only(read("ex_fever", [row])).passages


def test_ex_fever_quarantines_a_list_that_does_not_parse():
    """Only a printed list of names is one."""
    for entities in ("Orla", "[Orla]", "['a', 1]", "{'a'}", "['a'"):
        row = {**SOUND["ex_fever"][1], "golden entity": entities}
        assert [(1, "golden entity", "missing_field")] == faults(read("ex_fever", [row])), entities


def test_feverous_sentences_lose_their_link_marks():
    """Title and plain sentence are the passage; the title is the document."""
    draft = only(read("feverous", [SOUND["feverous"][1]], 2))
    assert ("Orla Venn: She met Bram.",) == draft.passages
    assert (("Orla Venn",), "feverous_s", "7") == (draft.documents, draft.subset, draft.native_id)


NATIVE_FEVEROUS = {
    "id": 3,
    "claim": "C.",
    "label": "SUPPORTS",
    "evidence": [
        {"content": ["A_title_sentence_0", "Orla_header_cell_0_1_0", "Orla_cell_0_1_1"]},
        {"content": ["A_title_sentence_0", "Orla_title"]},
    ],
}


def test_feverous_elements_come_from_the_page_database():
    """Sets are joined, cells of a row stand together, the header record is skipped."""
    parts = {
        ("A_title", "sentence_0"): "One.",
        ("Orla", "header_cell_0_1_0"): "born",
        ("Orla", "cell_0_1_1"): "[[Year_1901|1901]]",
    }
    databases = {"feverous/feverous_wikiv1.db": MemoryPages(parts=parts)}
    header = {"id": "", "claim": "", "label": "", "evidence": []}
    draft = only(read("feverous", [header, NATIVE_FEVEROUS], databases=databases))
    assert ("A title: One.", "Orla: born | 1901") == draft.passages
    assert (("A title", "Orla"), "text") == (draft.documents, draft.evidence_kind)


def test_feverous_without_all_its_elements_is_without_evidence():
    """No database, or one element missing: no passages; a name that is no element: reject."""
    databases = {"feverous/feverous_wikiv1.db": MemoryPages(parts={("A_title", "sentence_0"): "x"})}
    assert () == only(read("feverous", [NATIVE_FEVEROUS])).passages
    assert () == only(read("feverous", [NATIVE_FEVEROUS], databases=databases)).passages
    bad = {**NATIVE_FEVEROUS, "evidence": [{"content": ["Orla"]}]}
    assert [(1, "evidence", "dangling_reference")] == faults(read("feverous", [bad]))


def test_feverous_evidence_of_cells_alone_is_a_table():
    """Cells, captions and headers without a sentence are table evidence."""
    cells = {**NATIVE_FEVEROUS, "evidence": [{"content": ["Orla_cell_0_1_1", "Orla_title"]}]}
    assert "table" == only(read("feverous", [cells])).evidence_kind


def test_hover_joins_paragraphs_by_title_set():
    """The first line of a title set serves every claim with that set, in any order."""

    def claim(uid: str, titles: str, label: str, text: str) -> Row:
        facts = [[title, 0] for title in titles]
        return {"uid": uid, "claim": text, "supporting_facts": facts, "label": label, "num_hops": 2}

    rows = [
        claim("1", "AB", "SUPPORTED", "first"),
        claim("2", "BAA", "SUPPORTED", "second"),
        claim("3", "BA", "NOT_SUPPORTED", "changed"),
        claim("4", "AC", "NOT_SUPPORTED", "first"),
    ]
    lines = [
        {"claim": "first", "gold_evidence": "pa\npb"},
        {"claim": "second", "gold_evidence": "pb\npa"},
        {"claim": "nobody's", "gold_evidence": "px"},
    ]
    beside = {"hover/hover_dev_gold_paragraphs.jsonl": lines}
    outcomes = read("hover", rows, 1, beside)
    drafts = [one for one in outcomes if isinstance(one, Draft)]
    assert [("pa", "pb")] * 3 + [()] == [draft.passages for draft in drafts]
    assert [("A", "B"), ("B", "A"), ("B", "A"), ("A", "C")] == [one.documents for one in drafts]
    assert [2] * 4 == [draft.num_hops for draft in drafts]
    assert [(3, "claim", "dangling_reference")] == faults(outcomes)


def test_hover_prefers_the_page_database():
    """With every gold page in the database, each page is one passage."""
    databases = {"hover/wiki_wo_links.db": MemoryPages({"Orla": ["One.", "Two."]})}
    draft = only(read("hover", [SOUND["hover"][1]], 1, databases=databases))
    assert ("One. Two.",) == draft.passages


def test_faviq_puts_the_positive_passage_first():
    """Both passages in that order; a row without either keeps its claim and no evidence."""
    row = SOUND["faviq_a"][1]
    draft = only(read("faviq_a", [row]))
    assert (("One.", "Two."), ("Orla", "Bram")) == (draft.passages, draft.documents)
    listed = {**row, "positive_evidence": [], "negative_evidence": [row["negative_evidence"]]}
    assert ("Two.",) == only(read("faviq_a", [listed])).passages
    bare = {"id": "q", "claim": "c", "label": "SUPPORTS"}
    empty = {**bare, "positive_evidence": None, "negative_evidence": {}}
    assert () == only(read("faviq_a", [empty])).passages
    assert [(1, "positive_evidence", "missing_field")] == faults(read("faviq_a", [bare]))


def test_ambifc_joins_agreeing_passages_of_a_page():
    """One draft a claim, page and label; sentences in numeric order; conflicts stay apart."""
    row = SOUND["ambifc"][1]
    listed = {**row, "sentences": {"10": "Five.", "2": "Four.", "0": "Three."}}
    against = {**row, "labels": {"passage": "refuting"}, "wiki_passage": "Six."}
    elsewhere = {**row, "wiki_page": "Bram", "wiki_passage": "Seven."}
    outcomes = read("ambifc", [row, against, listed, elsewhere])
    drafts = [one for one in outcomes if isinstance(one, Draft)]
    expected = [
        (1, "supporting", ("One.", "Two.", "Three.", "Four.", "Five.")),
        (2, "refuting", ("Six.",)),
        (4, "supporting", ("Seven.",)),
    ]
    assert expected == [(one.row, one.native_label, one.passages) for one in drafts]
    assert 3 == len({one.native_id for one in drafts})


def test_wice_sub_claims_share_the_document_of_their_claim():
    """The id keeps its suffix, the document loses it, the subset names the file's kind."""
    row = {**SOUND["wice"][1], "meta": {"id": "dev1-2"}, "label": "partially_supported"}
    draft = only(read("wice", [row], 2))
    assert ("dev1-2", ("dev1",)) == (draft.native_id, draft.documents)
    assert "non_supported_tokens" == draft.subset


def test_llm_aggrefact_strips_the_contamination_mark():
    """The mark stands in no text, and the part is the subset."""
    row = {**SOUND["llm_aggrefact"][1], "doc": "One x9. Two. x9", "claim": "C. x9"}
    draft = only(read("llm_aggrefact", [row]))
    assert ("C.", "Part", "1") == (draft.claim, draft.subset, draft.native_label)
    assert "x9" not in " ".join(draft.passages)


def test_pubhealth_splits_its_article_into_sentences():
    """Claims about one article share its document."""
    row = SOUND["pubhealth"][1]
    one, two = read("pubhealth", [row, {**row, "claim_id": "10"}])
    assert isinstance(one, Draft)
    assert isinstance(two, Draft)
    assert ("One.", "Two!", "Three?") == one.passages
    assert one.documents == two.documents


def test_pubhealth_knows_four_labels():
    """Damaged labels reach the loader as they are, and no side claims them."""
    for label in ("", "-1", "snopes"):
        draft = only(read("pubhealth", [{**SOUND["pubhealth"][1], "label": label}]))
        assert label == draft.native_label
        assert SOURCE["pubhealth"].labels.side(label) is None


def test_tables_are_linearised_row_by_row():
    """Caption, header and rows, cells joined by bars, null cells blank."""
    health = only(read("pubhealthtab", [SOUND["pubhealthtab"][1]]))
    assert (" | n", "a | 1", "b | ") == health.passages
    science = only(read("scitab", [SOUND["scitab"][1]]))
    assert ("Cap", "m | F1", "a | [BOLD] 1") == science.passages
    assert {"table"} == {health.evidence_kind, science.evidence_kind}


ABSTRACTS = [{"doc_id": 31, "abstract": ["One.", "Two."]}, {"doc_id": 32, "abstract": ["Three."]}]


def test_scifact_gives_one_draft_a_document():
    """Each evidence document is a pair; a dangling one rejects its pair and no other."""
    beside = {"scifact/corpus.jsonl": ABSTRACTS}
    evidence = {
        "31": [{"sentences": [0, 1], "label": "SUPPORT"}],
        "32": [{"sentences": [1], "label": "SUPPORT"}],
        "99": [{"sentences": [0], "label": "SUPPORT"}],
        "32 ": [{"sentences": "0", "label": "SUPPORT"}],
    }
    outcomes = read("scifact", [{"id": 5, "claim": "C.", "evidence": evidence}], 0, beside)
    (draft,) = (one for one in outcomes if isinstance(one, Draft))
    assert ("5:31", ("One.", "Two."), ("31",)) == (draft.native_id, draft.passages, draft.documents)
    assert [(1, "evidence", "dangling_reference")] * 3 == faults(outcomes)


def test_scifact_claims_without_evidence_are_the_middle_class():
    """Their passages are the cited abstracts."""
    row = {"id": 6, "claim": "C.", "evidence": {}, "cited_doc_ids": [32, 31]}
    draft = only(read("scifact", [row], 0, {"scifact/corpus.jsonl": ABSTRACTS}))
    assert ("6", ("Three.", "One.", "Two.")) == (draft.native_id, draft.passages)
    assert "middle" == SOURCE["scifact"].labels.side(draft.native_label or "")


def test_scifact_reads_printed_arrays():
    """Quoted strings separated by white space, either quote, escapes and line breaks."""
    printed = """['One \\'a\\'.' "Two's"\n 'Three\nfour.']"""
    rows = [{"doc_id": "31", "abstract": printed}, {"doc_id": "32", "abstract": "['a' ... 'b']"}]
    outcomes = read("scifact", [SOUND["scifact"][1]], 0, {"scifact/corpus_train.csv": rows})
    (draft,) = (one for one in outcomes if isinstance(one, Draft))
    assert ("One 'a'.", "Two's", "Three\nfour.") == draft.passages
    assert [(2, "abstract", "missing_field")] == faults(outcomes)


def test_scifact_without_a_corpus_has_no_evidence():
    """Claims alone are no fault."""
    assert () == only(read("scifact", [SOUND["scifact"][1]])).passages


def test_claimdecomp_counts_a_paragraph_once():
    """Justification first, then what the article adds; neither is no fault."""
    row = SOUND["claimdecomp"][1]
    assert ("Two.", "One.") == only(read("claimdecomp", [row])).passages
    bare = {"example_id": "e", "claim": "C.", "label": "true", "full_article": None}
    assert () == only(read("claimdecomp", [bare])).passages


def test_claimdecomp_grades_have_sides():
    """The true end, the false end, and what lies between."""
    side = SOURCE["claimdecomp"].labels.side
    assert {"Supported"} == {side("true"), side("TRUE")}
    assert {"Refuted"} == {side(grade) for grade in ("pants-fire", "false", "barely-true")}
    assert {"middle"} == {side("half-true"), side("mostly-true")}


def test_pubmedclaim_never_shows_the_long_answer():
    """The conclusion of the abstract would give the answer away."""
    draft = only(read("pubmedclaim", [SOUND["pubmedclaim"][1]], 1))
    assert ("One.", "Two.") == draft.passages
    assert ("123",) == draft.documents


def test_a_sentence_number_outside_its_abstract_dangles():
    """Negative numbers do not count from the end."""
    for number in (-1, 2, True, None, "0"):
        evidence = {"31": [{"sentences": [number], "label": "SUPPORT"}]}
        row = {**SOUND["scifact"][1], "evidence": evidence}
        outcomes = read("scifact", [row], 0, {"scifact/corpus.jsonl": ABSTRACTS})
        assert [(1, "evidence", "dangling_reference")] == faults(outcomes), number


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
    row = {"id": "5", "sentence1": "One -LRB- I -RRB- .", "sentence2": "C ."}
    row["gold_label"] = "REFUTES"
    draft = only(bench("fever", 1, row))
    assert ("C .", ("One ( I ) .",), "REFUTES") == (draft.claim, draft.passages, draft.native_label)
    assert ("fever_symmetric", "fever_symmetric-5") == (draft.subset, draft.native_id)


def test_coverbench_labels_are_truth_values():
    """True is supported; a number is no truth value."""
    row = {"claim": "C.", "context": "a | b\nOne. Two.", "label": True}
    draft = only(bench("coverbench", 0, row))
    assert (("a | b", "One.", "Two."), "true") == (draft.passages, draft.native_label)
    assert [(1, "label", "missing_field")] == faults(bench("coverbench", 0, {**row, "label": 1}))
