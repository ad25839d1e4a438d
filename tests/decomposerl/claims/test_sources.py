"""The adapters of corpora and benchmarks, and their readings, on invented native rows."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
import yaml
from pydantic import ValidationError

from corpora_parts import assert_conserved
from decomposerl.claims.claim import Draft, Reject
from decomposerl.claims.load import LoadedClaims, LoadSettings, load_benchmark, load_source
from decomposerl.errors import ConfigError
from fakes import MemoryCorpora, MemoryPages
from native_rows import (
    BENCHMARK,
    MEMBERS,
    REQUIRED,
    SOUND,
    SOURCE,
    Row,
    bench,
    faults,
    only,
    read,
)
from project import ROOT
from resources.corpora.folder import FolderCorpora
from resources.corpora.resource import LoadConfig


def test_a_sound_row_gives_one_draft():
    """Claim, side and place of a sound row come through."""
    for name, (index, row) in SOUND.items():
        draft = only(read(name, [row], index))
        assert draft.claim in {row.get("claim"), row.get("text"), row.get("QUESTION")}
        assert draft.row == 1
        assert draft.native_label is not None
        assert SOURCE[name].labels.side(draft.native_label) is not None
        assert draft.split == SOURCE[name].native_files[index].split


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
        broken = Reject(SOURCE[name].native_files[index].path, 2, "", "malformed_line", "}")
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
    """No database, or one missing: no passages. No element: reject. Without sentence: a table."""
    databases = {"feverous/feverous_wikiv1.db": MemoryPages(parts={("A_title", "sentence_0"): "x"})}
    assert () == only(read("feverous", [NATIVE_FEVEROUS])).passages
    assert () == only(read("feverous", [NATIVE_FEVEROUS], databases=databases)).passages
    bad = {**NATIVE_FEVEROUS, "evidence": [{"content": ["Orla"]}]}
    assert [(1, "evidence", "dangling_reference")] == faults(read("feverous", [bad]))
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


def test_evidence_that_the_authors_did_not_find_is_none():
    """FaviQ's ``N/A`` and AmbiFC's passage id: no passage, no shared document, a reason each."""
    row, none = SOUND["faviq_a"][1], {"id": "N/A", "title": "N/A", "text": "N/A"}
    half = {**row, "id": "q2", "claim": "d", "negative_evidence": none}
    lost = [
        {**row, "id": f"q{number}", "claim": f"c{number}", "positive_evidence": none, **negative}
        for number, negative in enumerate(({}, {"negative_evidence": none}), start=3)
    ]
    drafts = read("faviq_a", [row, half, *lost])
    assert [("Orla", "Bram"), ("Orla",)] == [only([one]).documents for one in drafts[:2]]
    assert "N/A" not in "".join(text for one in drafts for text in only([one]).documents)
    loaded = training("faviq_a", {"faviq/train.jsonl": [row, half, *lost]})
    assert ["One.\nTwo.", "One."] == loaded.claims["evidence"].to_list()
    assert ["evidence_not_found"] * 2 == loaded.drops["reason"].to_list()
    passage = {**SOUND["ambifc"][1], "wiki_passage": "newwiki.jsonl:5166:0:0"}
    loaded = training("ambifc", {"ambifc/train.certain.jsonl": [passage]})
    assert ["evidence_not_found"] == loaded.drops["reason"].to_list()


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


def test_pubhealth_splits_its_article_into_sentences_and_knows_four_labels():
    """Claims about one article share its document; no side claims a damaged label."""
    row = SOUND["pubhealth"][1]
    one, two = read("pubhealth", [row, {**row, "claim_id": "10"}])
    assert isinstance(one, Draft)
    assert isinstance(two, Draft)
    assert ("One.", "Two!", "Three?") == one.passages
    assert one.documents == two.documents
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
    """Their passages are the cited abstracts. Claims without a corpus are no fault."""
    row = {"id": 6, "claim": "C.", "evidence": {}, "cited_doc_ids": [32, 31]}
    draft = only(read("scifact", [row], 0, {"scifact/corpus.jsonl": ABSTRACTS}))
    assert ("6", ("Three.", "One.", "Two.")) == (draft.native_id, draft.passages)
    assert "middle" == SOURCE["scifact"].labels.side(draft.native_label or "")
    assert () == only(read("scifact", [SOUND["scifact"][1]])).passages


def test_scifact_reads_printed_arrays():
    """Quoted strings separated by white space, either quote, escapes and line breaks."""
    printed = """['One \\'a\\'.' "Two's"\n 'Three\nfour.']"""
    rows = [{"doc_id": "31", "abstract": printed}, {"doc_id": "32", "abstract": "['a' ... 'b']"}]
    outcomes = read("scifact", [SOUND["scifact"][1]], 0, {"scifact/corpus_train.csv": rows})
    (draft,) = (one for one in outcomes if isinstance(one, Draft))
    assert ("One 'a'.", "Two's", "Three\nfour.") == draft.passages
    assert [(2, "abstract", "missing_field")] == faults(outcomes)


def test_claimdecomp_counts_a_paragraph_once_and_its_grades_have_sides():
    """Justification first, then what the article adds; neither is no fault. Ends and middle."""
    row = SOUND["claimdecomp"][1]
    assert ("Two.", "One.") == only(read("claimdecomp", [row])).passages
    bare = {"example_id": "e", "claim": "C.", "label": "true", "full_article": None}
    assert () == only(read("claimdecomp", [bare])).passages
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
    bad = bench("fever", 0, {**row, "evidence": [["x"]]})
    assert [(1, "evidence", "missing_field")] == faults(bad)


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


NATIVE_TRAIN = "feverous/feverous_train_challenges.jsonl"
NATIVE_DEV = "feverous/feverous_dev_challenges.jsonl"
SENTENCE_DEV = "feverous_s/dev.json"
PAGES = {
    "feverous/feverous_wikiv1.db": MemoryPages(
        parts={("Orla", "sentence_0"): "She met Bram.", ("Orla", "cell_0_1_1"): "1901"}
    )
}


def native(number: int, *elements: str) -> Row:
    """A row of the native FEVEROUS files."""
    evidence = [{"content": list(elements), "context": {}}]
    return {"id": number, "claim": f"Claim {number}.", "label": "SUPPORTS", "evidence": evidence}


def reduced(number: int) -> Row:
    """The same claim in ``feverous_s``."""
    return {**SOUND["feverous"][1], "id": number, "claim": f"Claim {number}."}


def both(name: str, corpora: MemoryCorpora, **readings: str) -> tuple[LoadedClaims, LoadedClaims]:
    """The training corpus and the test set of one name."""
    settings = LoadSettings(readings=readings, max_reject_share=1)
    source, benchmark = SOURCE[name], BENCHMARK[name]
    return (
        load_source(source, benchmark, corpora, settings),
        load_benchmark(benchmark, source, corpora, settings),
    )


def ids(loaded: LoadedClaims) -> list[str]:
    """Native ids of the claims, sorted."""
    return sorted(loaded.claims["native_id"])


def test_the_reduced_dev_file_never_trains_beside_the_native_one():
    """Its rows are rows of the native dev file, which is the test set."""
    rows = {
        NATIVE_TRAIN: [native(1, "Orla_sentence_0")],
        NATIVE_DEV: [native(2, "Orla_sentence_0"), native(3, "Orla_cell_0_1_1")],
        SENTENCE_DEV: [reduced(2)],
    }
    trained, tested = both("feverous", MemoryCorpora(rows, PAGES))
    assert (["1"], ["2", "3"]) == (ids(trained), ids(tested))


@pytest.mark.parametrize("train", [[], [native(1, "Orla_sentence_0")]], ids=["alone", "train"])
def test_a_native_dev_file_without_its_pages_is_tested_by_the_reduced_one(train: list[Row]):
    """Without the page database the reduced file has the only text of the test claims."""
    rows = {NATIVE_DEV: [native(2, "Orla_sentence_0")], SENTENCE_DEV: [reduced(2)]}
    rows |= {NATIVE_TRAIN: train} if train else {}
    trained, tested = both("feverous", MemoryCorpora(rows))
    assert [] == ids(trained)
    assert ["feverous_s"] == tested.claims.drop_nulls("evidence")["subset"].to_list()


def test_without_the_native_dev_file_the_reduced_one_is_split_as_before():
    """It is then the only dev file, and both sides have a part of it."""
    pages = [{**reduced(i), "evidence": f"Page {i}\tOne."} for i in range(60)]
    trained, tested = both("feverous", MemoryCorpora({SENTENCE_DEV: pages}))
    assert 60 == trained.claims.height + tested.claims.height
    assert 0 < tested.claims.height < 30


def test_the_pubhealth_excerpt_never_trains_beside_the_test_file():
    """It does not say of which split its rows are: some may be test rows."""
    _, row = SOUND["pubhealth"]
    rows = {
        "pubhealth/test.tsv": [row],
        "pubhealth/tuning_excerpt.tsv": [row],
        "pubhealth/train.tsv": [{**row, "claim_id": "10", "claim": "D."}],
    }
    trained, tested = both("pubhealth", MemoryCorpora(rows))
    assert (["10"], ["9"]) == (ids(trained), ids(tested))


def test_feverous_of_sentences_drops_each_claim_with_another_element():
    """As the public selection was made: a title or cell in any evidence set is one too many."""
    rows = {
        NATIVE_TRAIN: [
            native(1, "Orla_sentence_0"),
            native(2, "Orla_sentence_0", "Orla_cell_0_1_1"),
            native(3, "Orla_sentence_0", "Orla_title"),
        ],
        NATIVE_DEV: [native(4, "Orla_cell_0_1_1"), native(5, "Orla_sentence_0")],
    }
    corpora = MemoryCorpora(rows, PAGES)
    assert (["1", "2", "3"], ["4", "5"]) == tuple(ids(one) for one in both("feverous", corpora))
    trained, tested = both("feverous", corpora, feverous="sentences")
    assert (["1"], ["5"]) == (ids(trained), ids(tested))
    assert {("readings", "not_sentences_only")} == set(trained.drops["step", "reason"].rows())
    for loaded in (trained, tested):
        assert_conserved(loaded)
    default, _ = both("feverous", corpora)
    assert default.claims.filter(native_id="1").equals(trained.claims), "stored results stay valid"


def test_a_row_that_a_reading_leaves_out_hides_no_other_file():
    """A reduced row with its claim and text is kept; without the reading it is a repeat."""
    row = {**reduced(1), "evidence": "Orla\tShe met Bram."}
    rows = {
        NATIVE_TRAIN: [native(1, "Orla_sentence_0", "Orla_title")],
        "feverous_s/train.json": [row],
    }
    plain, _ = both("feverous", MemoryCorpora(rows, PAGES))
    chosen, _ = both("feverous", MemoryCorpora(rows, PAGES), feverous="sentences")
    assert [["1"], ["1"]] == [ids(plain), ids(chosen)]
    assert ["repeated_across_files"] == plain.drops["reason"].to_list()
    assert ["not_sentences_only"] == chosen.drops["reason"].to_list()
    assert {"feverous_s"} == set(chosen.claims["subset"])


def repeated(loaded: LoadedClaims) -> list[tuple[str, str]]:
    """Reason of each drop, and the native id of the claim that it repeats."""
    kept = loaded.claims.select("native_id", matched_claim_id="claim_id")
    return loaded.drops.join(kept, on="matched_claim_id").select("reason", "native_id").rows()


@pytest.mark.parametrize("readings", [{}, {"feverous": "sentences"}], ids=["default", "sentences"])
def test_a_claim_of_the_native_and_the_reduced_file_is_read_once(readings: dict[str, str]):
    """The native row stays though their evidence differs; claims of one file alone stay, too."""
    rows = {
        NATIVE_TRAIN: [native(1, "Orla_sentence_0"), native(2, "Orla_sentence_0")],
        "feverous_s/train.json": [reduced(1), reduced(3), {**reduced(2), "claim": "Another."}],
    }
    trained, _ = both("feverous", MemoryCorpora(rows, PAGES), **readings)
    assert [None, None, "feverous_s", "feverous_s"] == trained.claims["subset"].to_list()
    assert ["1", "2", "3", "2"] == trained.claims["native_id"].to_list()
    assert [("repeated_across_files", "1")] == repeated(trained)
    assert_conserved(trained)


def test_without_the_pages_the_reduced_file_gives_the_claim():
    """The native row has no text then: it is dropped for that, and the reduced one stays."""
    rows = {NATIVE_TRAIN: [native(1, "Orla_sentence_0")], "feverous_s/train.json": [reduced(1)]}
    trained, _ = both("feverous", MemoryCorpora(rows))
    assert [("1", "feverous_s")] == trained.claims["native_id", "subset"].rows()
    assert ["evidence_unavailable"] == trained.drops["reason"].to_list()


def test_parts_of_a_corpus_may_share_an_id_and_a_claim():
    """WiCE's two granularities are different rows: the part tells them apart."""
    _, row = SOUND["wice"]
    rows = {
        "wice/claim/train.jsonl": [row],
        "wice/non_supported_tokens/train.jsonl": [{**row, "evidence": ["Something else."]}],
    }
    trained, _ = both("wice", MemoryCorpora(rows))
    assert ["claim", "non_supported_tokens"] == trained.claims["subset"].to_list()


def training(name: str, rows: Mapping[str, Sequence[Row]], **readings: str) -> LoadedClaims:
    """The training corpus of a name that shares no file with a test set."""
    settings = LoadSettings(readings=readings, max_reject_share=1)
    return load_source(SOURCE[name], None, MemoryCorpora(rows), settings)


def scifact(evidence: dict[str, list[dict[str, object]]]) -> LoadedClaims:
    row = {**SOUND["scifact"][1], "evidence": evidence}
    corpus = [{"doc_id": n, "title": "T", "abstract": ["One.", "Two."]} for n in (31, 32)]
    rows = {"scifact/claims_train.jsonl": [row], "scifact/corpus.jsonl": corpus}
    return training("scifact", rows, scifact="rationales")


def test_scifact_of_rationales_gives_each_rationale_the_whole_abstract():
    """Two rationales in one abstract are two rows; a bad pair is one reject, not several."""
    support = {"sentences": [0], "label": "SUPPORT"}
    loaded = scifact({"31": [support, {**support, "sentences": [1]}], "32": [support]})
    assert ["5:31:0", "5:31:1", "5:32:0"] == ids(loaded)
    assert {"One.\nTwo."} == set(loaded.claims["evidence"])
    bad = scifact({"31": [support, {**support, "sentences": [9]}], "32": [support]})
    assert (["5:32:0"], 1) == (ids(bad), bad.rejects.height)
    assert ["middle_class"] == scifact({}).drops["reason"].to_list()


def test_ambifc_of_passages_keeps_each_line():
    """The default joins the two passages of a page; the reading does not."""
    _, row = SOUND["ambifc"]
    rows = {"ambifc/train.certain.jsonl": [row, {**row, "wiki_passage": "Three."}]}
    assert ["One.\nTwo.\nThree."] == training("ambifc", rows).claims["evidence"].to_list()
    single = training("ambifc", rows, ambifc="passages")
    assert {"One.\nTwo.", "Three."} == set(single.claims["evidence"])
    assert_conserved(single)


def test_faviq_of_positive_passages_reads_train_alone():
    """The passage without the answer and the dev split are left out; no passage: no evidence."""
    _, row = SOUND["faviq_a"]
    bare = {**row, "id": "q2", "claim": "d", "positive_evidence": None}
    rows = {"faviq/train.jsonl": [row, bare], "faviq/dev.jsonl": [{**row, "id": "q3"}]}
    loaded = training("faviq_a", rows, faviq_a="positive")
    assert (["q1"], ["One."]) == (ids(loaded), loaded.claims["evidence"].to_list())
    assert ["evidence_unavailable"] == loaded.drops["reason"].to_list()


def test_fever_of_the_paper_test_leaves_fever_symmetric_out():
    """One file of two; the list of claims for decontamination stays."""
    symmetric = {"id": "1", "sentence1": "Orla met Bram.", "sentence2": "They met."}
    symmetric["gold_label"] = "SUPPORTS"
    native_row = {"id": 2, "claim": "C.", "label": "SUPPORTS", "evidence": [[[1, 1, "Orla", 0]]]}
    rows = {
        "fever_symmetric/fever_symmetric_dev.jsonl": [symmetric],
        "fever/paper_test.jsonl": [native_row],
        "fever/paper_dev.jsonl": [{**native_row, "id": 3}],
    }

    def loaded(**readings: str) -> list[str]:
        settings = LoadSettings(readings=readings)
        return ids(load_benchmark(BENCHMARK["fever"], None, MemoryCorpora(rows), settings))

    assert ["2", "3", "fever_symmetric-1"] == loaded()
    assert ["2", "3"] == loaded(fever="paper_test")


def test_hover_trains_on_train_and_tests_on_dev():
    """With its train file on disk, all of train trains and all of dev tests: the paper's 18,171."""
    _, row = SOUND["hover"]
    many = [{**row, "uid": str(number), "claim": f"Claim {number}."} for number in range(40)]
    rows = {
        "hover/hover_train_release_v1.1.json": many[:30],
        "hover/hover_dev_release_v1.1.json": many[30:],
    }
    pages = {"hover/wiki_wo_links.db": MemoryPages({"Orla": ["One."]})}
    trained, tested = both("hover", MemoryCorpora(rows, pages))
    assert (30, 10) == (trained.claims.height, tested.claims.height)


WITH_READINGS = [one for one in MEMBERS if one.readings]


def test_every_reading_differs_and_says_how():
    """Each changes the reader or the files; the shipped settings name all corpora with one."""
    for corpus in WITH_READINGS:
        assert len(corpus.readings) == len({one.name for one in corpus.readings})
        for one in corpus.readings:
            assert one.description
            assert one.read is not None or one.without
            assert set(one.without) <= set(corpus.files)
    shipped = yaml.safe_load((ROOT / "configs/paper_rows.yaml").read_text("utf-8"))
    settings = LoadConfig(**shipped["resources"]["corpora"]["config"]["settings"])
    assert {one.name for one in WITH_READINGS} == settings.readings.keys()


def test_an_unknown_reading_is_refused_with_those_there_are():
    """By the loader, and already by the run's configuration."""
    files = MemoryCorpora({})
    wrong_name = LoadSettings(readings={"feverous": "sentence"})
    with pytest.raises(ConfigError, match=r"'sentence'.* sentences"):
        load_source(SOURCE["feverous"], None, files, wrong_name)
    assert {"feverous": "sentences"} == LoadConfig(readings={"feverous": "sentences"}).readings
    for wrong in ({"feverous": "sentence"}, {"feverus": "sentences"}):
        with pytest.raises(ValidationError, match="feverous: sentences"):
            LoadConfig(readings=wrong)
