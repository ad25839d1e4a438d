"""The list of doubtful labels of a test set: which claims a row names, and what else it can say."""

import json
from pathlib import Path

import polars as pl

from decomposerl.claims.catalogue import BENCHMARKS, source_of
from decomposerl.claims.claim import LabelMap
from decomposerl.claims.doubtful import doubted_ids, doubtful_claims, list_folders, without_effect
from decomposerl.claims.load import LoadSettings, load_benchmark
from decomposerl.schemas import BENCHMARK_CLAIMS
from evaluation_graph import claim_row
from resources.corpora.folder import FolderCorpora

LABELS = LabelMap.of("yes", "no", "half")
CLAIMS = BENCHMARK_CLAIMS.conform(
    pl.DataFrame(
        [
            claim_row(0, claim_id="a", native_id="10", claim="Snow is white."),
            claim_row(1, claim_id="b", native_id="11", claim="Coal is white."),
            claim_row(2, claim_id="c", native_id="12", claim="It rained.", evidence="A wet day."),
            claim_row(3, claim_id="d", native_id="13", claim="It rained.", evidence="A dry day."),
            claim_row(4, claim_id="e", native_id="14", claim="Part one."),
            claim_row(5, claim_id="f", native_id="14", claim="Part two."),
        ],
        schema=BENCHMARK_CLAIMS.schema,
    )
)


def read(folder: Path, *rows: object, name: str = "doubtful.jsonl") -> pl.DataFrame:
    """What the list of these rows gives; a text is a line as it stands."""
    (folder / "toy").mkdir(exist_ok=True)
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    (folder / "toy" / name).write_text("\n".join(lines) + "\n", "utf-8")
    found = doubtful_claims(["toy"], LABELS, CLAIMS, FolderCorpora(folder))
    assert found is not None
    return found


def test_without_a_list_there_is_none(tmp_path: Path):
    """A test set without the file is read as before."""
    assert doubtful_claims(["toy"], LABELS, CLAIMS, FolderCorpora(tmp_path)) is None


def test_lists_of_the_name_and_of_the_corpus_s_folder_count_together(tmp_path: Path):
    """PubMedClaim's files are in ``pubmedqa``; a claim on both lists is doubted once."""
    claims = {str(pmid): {"QUESTION": f"Is {pmid} high?", "CONTEXTS": ["It is."],
              "final_decision": "yes"} for pmid in range(3)}  # fmt: skip
    folder = tmp_path / "pubmedqa"
    folder.mkdir()
    (folder / "ori_pqal.json").write_text(json.dumps(claims), "utf-8")
    (folder / "test_ground_truth.json").write_text(json.dumps(dict.fromkeys(claims, "yes")))
    (folder / "doubtful.csv").write_text("id\n0\n1\n", "utf-8")
    (pubmed,) = (one for one in BENCHMARKS if one.name == "pubmedclaim")
    settings, files = LoadSettings(), FolderCorpora(tmp_path)
    of_corpus = load_benchmark(pubmed, source_of(pubmed), files, settings).doubtful
    assert of_corpus is not None
    assert ["doubtful", "doubtful"] == of_corpus["state"].to_list()
    (tmp_path / "pubmedclaim").mkdir()
    (tmp_path / "pubmedclaim" / "doubtful.jsonl").write_text('{"id": 1}\n{"id": 2}\n', "utf-8")
    both = load_benchmark(pubmed, source_of(pubmed), files, settings).doubtful
    assert both is not None
    assert [
        ("pubmedclaim/doubtful.jsonl", "1", "doubtful"),
        ("pubmedclaim/doubtful.jsonl", "2", "doubtful"),
        ("pubmedqa/doubtful.csv", "0", "doubtful"),
        ("pubmedqa/doubtful.csv", "1", "repeated"),
    ] == both.select("file", "native_id", "state").rows()
    assert 3 == len(doubted_ids(both))


def test_no_folder_may_hold_the_list_of_two_test_sets():
    """A list in a folder is of one test set of the catalogue."""
    folders = [folder for one in BENCHMARKS for folder in list_folders(one)]
    assert len(folders) == len(set(folders))
    assert {one.name for one in BENCHMARKS} < set(folders)


def test_a_row_names_a_claim_by_id_or_by_text(tmp_path: Path):
    """Ids may be numbers, texts differ in case and spaces; a native row doubts all its claims."""
    rows = {"native_id": 10}, {"id": "14"}, {"claim": " coal  is White. ", "kind": "wrong"}
    found = read(tmp_path, *rows)
    assert {"a", "b", "e", "f"} == doubted_ids(found)
    assert [None, None, None, "wrong"] == found["kind"].to_list()


def test_claims_with_one_text_are_told_apart_by_their_evidence(tmp_path: Path):
    """Without evidence, or with that of neither, no claim is doubted, and the row says why."""
    same = {"claim": "It rained."}
    found = read(tmp_path, same | {"evidence": ["A dry", "day"]}, same, same | {"evidence": "Sun."})
    assert ["d"] == list(doubted_ids(found))
    assert ["doubtful", "several_claims", "no_claim"] == found["state"].to_list()


PROPOSED = {
    ("doubtful", "wrong"): "NS no",
    ("doubtful", "ambiguous"): "half AMBIG",
    ("confirmed", None): "S Supported",
    ("unreadable", None): "perhaps",
}


def test_a_proposed_label_says_what_is_wrong(tmp_path: Path):
    """Another label makes the claim's wrong, no clear one ambiguous; the same one confirms it.

    An annotator may doubt a claim and propose the label that it has.
    """
    for (state, kind), labels in PROPOSED.items():
        for label in labels.split():
            found = read(tmp_path, {"native_id": "10", "label": label})
            assert (state, kind) == (found["state"][0], found["kind"][0]), label
            assert (state == "doubtful") == bool(doubted_ids(found))
    found = read(tmp_path, {"native_id": "10", "label": "S", "kind": "ambiguous"})
    assert [("doubtful", "ambiguous", "Supported")] == found.select("state", "kind", "label").rows()


def test_rows_that_name_no_claim_are_reported(tmp_path: Path):
    """Every row of the list is there, with the reason why it has no effect."""
    rows = {"id": "99"}, {"id": "10"}, {"id": 10}, {"kind": "wrong"}, {"id": 11, "kind": "odd"}
    found = read(tmp_path, *rows, "{not json")
    assert ["no_claim", "doubtful", "repeated", "unreadable", "unreadable", "unreadable"] == (
        found["state"].to_list()
    )
    assert [1, 2, 3, 4, 5, 6] == found["row"].to_list()
    assert {"a"} == doubted_ids(found)
    effect = without_effect(found)
    assert [] == [part for part in ("3", "1", "toy/doubtful.jsonl:1") if part not in effect]
    assert "" == without_effect(found.filter(state="doubtful"))


def test_a_csv_list_says_the_same(tmp_path: Path):
    """Empty cells of a CSV file are missing values."""
    lines = "native_id,claim,kind,label", "10,,wrong,", ",Coal is white.,,yes"
    found = read(tmp_path, *lines, name="doubtful.csv")
    assert [("a", "wrong"), ("b", "wrong")] == found.select("claim_id", "kind").rows()


def test_the_published_rows_of_grayfacts_are_read(tmp_path: Path):
    """Their layout: statement, documents as JSON within a text, AMBIG, no id of the claim."""
    row = {
        "topic": "toy",
        "statement": "It rained.",
        "reference_documents": '["A wet day."]',
        "label": "AMBIG",
        "category": "Toy",
        "additional_info": "{'original_label': 'NS'}",
    }
    found = read(tmp_path, row)
    assert [("c", "ambiguous", "ambiguous")] == found.select("claim_id", "kind", "label").rows()
