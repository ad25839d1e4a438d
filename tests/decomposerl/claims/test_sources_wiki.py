"""Adapters of the Wikipedia corpora on invented native rows."""

import pytest

from decomposerl.claims.claim import Draft
from fakes import MemoryPages
from native_rows import SOUND, Row, faults, only, read


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


@pytest.mark.parametrize("entities", ["Orla", "[Orla]", "['a', 1]", "{'a'}", "['a'"])
def test_ex_fever_quarantines_a_list_that_does_not_parse(entities: str):
    """Only a printed list of names is one."""
    row = {**SOUND["ex_fever"][1], "golden entity": entities}
    assert [(1, "golden entity", "missing_field")] == faults(read("ex_fever", [row]))


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
        {
            "content": ["A_title_sentence_0", "Orla_header_cell_0_1_0", "Orla_cell_0_1_1"],
            "context": {},
        },
        {"content": ["A_title_sentence_0", "Orla_title"], "context": {}},
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
