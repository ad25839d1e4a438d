"""Adapters of the health, science, news and politics corpora on invented native rows."""

import pytest

from decomposerl.claims.claim import Draft
from native_rows import SOUND, SOURCE, faults, only, read


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


@pytest.mark.parametrize("label", ["", "-1", "snopes"])
def test_pubhealth_knows_four_labels(label: str):
    """Damaged labels reach the loader as they are, and no side claims them."""
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


@pytest.mark.parametrize(
    ("side", "grades"),
    [
        ("Supported", ["true", "TRUE"]),
        ("Refuted", ["pants-fire", "false", "barely-true"]),
        ("middle", ["half-true", "mostly-true"]),
    ],
)
def test_claimdecomp_grades_have_sides(side: str, grades: list[str]):
    """The true end, the false end, and what lies between."""
    assert {side} == {SOURCE["claimdecomp"].labels.side(grade) for grade in grades}


def test_pubmedclaim_never_shows_the_long_answer():
    """The conclusion of the abstract would give the answer away."""
    draft = only(read("pubmedclaim", [SOUND["pubmedclaim"][1]], 1))
    assert ("One.", "Two.") == draft.passages
    assert ("123",) == draft.documents


@pytest.mark.parametrize("number", [-1, 2, True, None, "0"])
def test_a_sentence_number_outside_its_abstract_dangles(number: object):
    """Negative numbers do not count from the end."""
    row = {
        "id": 5,
        "claim": "C.",
        "evidence": {"31": [{"sentences": [number], "label": "SUPPORT"}]},
    }
    outcomes = read("scifact", [row], 0, {"scifact/corpus.jsonl": ABSTRACTS})
    assert [(1, "evidence", "dangling_reference")] == faults(outcomes)
