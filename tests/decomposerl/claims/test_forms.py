"""The forms in which corpora are published: the same claims out of each, and one of them read.

The hub's layouts are those of its dataset cards and loading scripts.
"""

import json
import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from pyarrow import parquet

from corpora_parts import LENIENT, assert_conserved
from decomposerl.claims.catalogue import BENCHMARKS, SOURCES
from decomposerl.claims.load import LoadedClaims, load_benchmark, load_source
from decomposerl.claims.source import Benchmark, Source
from decomposerl.errors import SourceFileError
from native_rows import BENCHMARK, SOUND, SOURCE
from resources.corpora.folder import FolderCorpora
from resources.corpora.status import corpora_status

Rows = Sequence[Mapping[str, Any]]
KEPT = ["claim_id", "native_id", "split", "claim", "passages", "label", "document_id"]
PQAL = {
    key: {
        "QUESTION": f"Does {key} help?",
        "CONTEXTS": [f"Group {key}.", "It helped."],
        "LABELS": ["METHODS", "RESULTS"],
        "final_decision": decision,
    }
    for key, decision in (("11", "yes"), ("12", "no"), ("13", "maybe"), ("14", "yes"))
}
PQAL_HUB = [
    {
        "pubid": int(key),
        "question": row["QUESTION"],
        "context": {"contexts": row["CONTEXTS"], "labels": row["LABELS"], "meshes": []},
        "long_answer": "Yes.",
        "final_decision": row["final_decision"],
    }
    for key, row in PQAL.items()
]
HOVER = [
    {
        "uid": f"u{number}",
        "claim": f"Claim {number}.",
        "supporting_facts": [["Orla", 0], ["Bram", number]],
        "label": label,
        "num_hops": 2,
    }
    for number, label in enumerate(("SUPPORTED", "NOT_SUPPORTED"))
]
HOVER_HUB = [
    {
        **row,
        "id": number,
        "supporting_facts": [{"key": key, "value": at} for key, at in row["supporting_facts"]],
        "label": ("NOT_SUPPORTED", "SUPPORTED").index(row["label"]),
        "hpqa_id": "h",
    }
    for number, row in enumerate(HOVER)
]
HEALTH = [
    {"claim_id": str(number), "claim": f"C {number}.", "main_text": "One. Two.", "label": label}
    for number, label in enumerate(("false", "mixture", "true", "unproven"))
]
SCIFACT = [
    {
        "id": 5,
        "claim": "C five.",
        "evidence": {
            "31": [{"sentences": [0], "label": "SUPPORT"}, {"sentences": [1], "label": "SUPPORT"}],
            "32": [{"sentences": [0], "label": "CONTRADICT"}],
        },
        "cited_doc_ids": [31, 32],
    },
    {"id": 6, "claim": "C six.", "evidence": {}, "cited_doc_ids": [32]},
]
ABSTRACTS = [{"doc_id": 31, "abstract": ["One.", "Two."]}, {"doc_id": 32, "abstract": ["Three."]}]
SCIFACT_HUB = [
    {
        "id": row["id"],
        "claim": row["claim"],
        "evidence_doc_id": document,
        "evidence_label": one["label"],
        "evidence_sentences": one["sentences"],
        "cited_doc_ids": row["cited_doc_ids"],
    }
    for row in SCIFACT
    for document, found in (row["evidence"] or {"": [{"label": "", "sentences": []}]}).items()
    for one in found
]
FEVER = [
    {
        "id": 1,
        "claim": "C one.",
        "label": "SUPPORTS",
        "evidence": [[[7, 8, "Orla", 0]], [[7, 9, "Orla", 1], [7, 9, "Bram", 0]]],
    },
    {"id": 2, "claim": "C two.", "label": "NOT ENOUGH INFO", "evidence": [[[3, None, None, None]]]},
    {"id": 3, "claim": "C three.", "label": "REFUTES", "evidence": [[[4, 5, "Bram", 0]]]},
]
FEVER_HUB = [
    {
        "id": row["id"],
        "label": row["label"],
        "claim": row["claim"],
        "evidence_annotation_id": annotation or -1,
        "evidence_id": evidence or -1,
        "evidence_wiki_url": page or "",
        "evidence_sentence_id": sentence or -1,  # the loader's: -1 for sentence 0, too
    }
    for row in FEVER
    for one_set in row["evidence"]
    for annotation, evidence, page, sentence in one_set
]
FEVEROUS = [
    {
        "id": number,
        "claim": f"C {number}.",
        "label": label,
        "evidence": [{"content": ["Orla_sentence_0", "Orla_cell_0_1_1"], "context": {}}],
    }
    for number, label in enumerate(("SUPPORTS", "REFUTES", "NOT ENOUGH INFO"), start=1)
]
FEVEROUS_HUB = [
    {
        **row,
        "label": number,
        "evidence": [{"content": row["evidence"][0]["content"], "context": [["Orla_title"]]}],
    }
    for number, row in enumerate(FEVEROUS)
]


def write(path: Path, rows: Any) -> None:  # noqa: ANN401 - a JSON file of any shape
    """Rows in the format of the file's ending."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        parquet.write_table(pa.Table.from_pylist([dict(row) for row in rows]), path)
    elif path.suffix == ".json":
        path.write_text(json.dumps(rows), "utf-8")
    elif path.suffix == ".tsv":
        pl.DataFrame(rows).write_csv(path, separator="\t")
    else:
        path.write_text("\n".join(map(json.dumps, rows)), "utf-8")


def pages(path: Path, table: str, column: str, texts: Mapping[str, str]) -> None:
    """A page database of the corpus's own layout."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with sqlite3.connect(path) as database:
        database.execute(f"CREATE TABLE {table} (id TEXT PRIMARY KEY, {column} TEXT)")
        database.executemany(f"INSERT INTO {table} VALUES (?, ?)", texts.items())  # noqa: S608


def load(root: Path, one: Source | Benchmark) -> LoadedClaims:
    files = FolderCorpora(root)
    settings = LENIENT.model_copy(update={"allow_training_off": True})
    if isinstance(one, Benchmark):
        return load_benchmark(one, None, files, settings)
    return load_source(one, None, files, settings)


def beside(root: Path) -> None:
    """What the claim files of several corpora refer to."""
    write(root / "pubmedqa/test_ground_truth.json", {"14": "yes"})
    write(root / "scifact/corpus.jsonl", ABSTRACTS)
    lines = {"Orla": "0\tShe met Bram.\n1\tTwice.", "Bram": "0\tHe was late."}
    pages(root / "fever/fever.db", "documents", "lines", lines)
    orla = {
        "title": "Orla",
        "order": ["sentence_0", "table_0"],
        "sentence_0": "She met Bram.",
        "table_0": {"table": [[{"id": "cell_0_1_1", "value": "1901"}]]},
    }
    pages(root / "feverous/feverous_wikiv1.db", "wiki", "data", {"Orla": json.dumps(orla)})
    texts = {"Orla": "She met Bram.", "Bram": "He was late."}
    pages(root / "hover/wiki_wo_links.db", "documents", "text", texts)


def sound(name: str, **change: object) -> Rows:
    return [{**SOUND[name][1], **change}]


FORMS: dict[str, tuple[Source | Benchmark, Any, str, Rows]] = {
    "pubmedclaim": (
        SOURCE["pubmedclaim"],
        PQAL,
        "pubmedqa/pqa_labeled/train-00000-of-00001.parquet",
        PQAL_HUB,
    ),
    "pubmedclaim jsonl": (
        SOURCE["pubmedclaim"],
        PQAL,
        "pubmedqa/pqa_labeled/train.jsonl",
        PQAL_HUB,
    ),
    "pubmedclaim test": (
        BENCHMARK["pubmedclaim"],
        PQAL,
        "pubmedqa/pqa_labeled/train/0000.parquet",
        PQAL_HUB,
    ),
    "hover": (SOURCE["hover"], HOVER, "hover/default/train/0000.parquet", HOVER_HUB),
    "pubhealth": (
        SOURCE["pubhealth"],
        HEALTH,
        "pubhealth/default/train/0000.parquet",
        [{**row, "label": number} for number, row in enumerate(HEALTH)],
    ),
    "pubhealth archive": (SOURCE["pubhealth"], HEALTH, "pubhealth/PUBHEALTH/train.tsv", HEALTH),
    "scifact": (SOURCE["scifact"], SCIFACT, "scifact/claims/train/0000.parquet", SCIFACT_HUB),
    "fever": (BENCHMARK["fever"], FEVER, "fever/v1.0/paper_test/0000.parquet", FEVER_HUB),
    "feverous": (SOURCE["feverous"], FEVEROUS, "feverous/default/train/0000.parquet", FEVEROUS_HUB),
    "foolmetwice": (
        SOURCE["foolmetwice"],
        sound("foolmetwice"),
        "foolmetwice/default/train/0000.parquet",
        sound(
            "foolmetwice",
            retrieved_evidence=[{"section_header": "s", "text": t} for t in ("One.", "Two.")],
        ),
    ),
    "wice": (SOURCE["wice"], sound("wice"), "wice/claim/train/0000.parquet", sound("wice")),
    "faviq_a": (
        SOURCE["faviq_a"],
        sound("faviq_a"),
        "faviq/default/train/0000.parquet",
        sound("faviq_a"),
    ),
    "claimdecomp": (
        SOURCE["claimdecomp"],
        sound("claimdecomp", label="true"),
        "claimdecomp/default/train/0000.parquet",
        sound("claimdecomp", label="true"),
    ),
}


@pytest.mark.parametrize("name", FORMS)
def test_each_form_gives_the_same_claims(name: str, tmp_path: Path):
    """Ids, splits, texts, labels, documents and drops; every row is counted in both."""
    member, native, path, hub = FORMS[name]
    loaded = []
    for folder, file, rows in (("a", member.files[0].path, native), ("b", path, hub)):
        beside(tmp_path / folder)
        write(tmp_path / folder / file, rows)
        loaded.append(load(tmp_path / folder, member))
        assert file in loaded[-1].files
        assert [] == loaded[-1].rejects.rows()
    ours, theirs = loaded
    assert 0 < ours.claims.height
    assert [text for passages in ours.claims["passages"] if len(passages) for text in passages]
    assert ours.claims.select(KEPT).rows() == theirs.claims.select(KEPT).rows()
    assert ours.drops.rows() == theirs.drops.rows()
    assert_conserved(theirs)


def test_the_abstracts_of_scifact_may_be_the_hubs(tmp_path: Path):
    """Both configurations of the hub's dataset, and nothing native."""
    write(tmp_path / "scifact/claims/train/0000.parquet", SCIFACT_HUB)
    write(tmp_path / "scifact/corpus/train/0000.parquet", ABSTRACTS)
    claims = load(tmp_path, SOURCE["scifact"]).claims
    assert [("5:31", "Supported"), ("5:32", "Refuted")] == claims.select(
        "native_id", "label"
    ).rows()


def test_the_hubs_ambifc_is_joined_by_claim_and_label(tmp_path: Path):
    """It has neither claim id nor page: the claim's text stands for both."""
    rows = [
        {"claim": "C.", "category": "x", "labels": {"passage": label}, "passage": passage}
        for label, passage in (("supporting", "One."), ("refuting", "Two."), ("supporting", "Six."))
    ]
    write(tmp_path / "ambifc/certain/train-00000-of-00001.parquet", rows)
    loaded = load(tmp_path, SOURCE["ambifc"])
    assert [(["One.", "Six."], "Supported"), (["Two."], "Refuted")] == loaded.claims.select(
        "passages", "label"
    ).rows()
    assert 1 == len(set(loaded.claims["document_id"]))


def test_hover_test_claims_of_the_hub_have_no_label(tmp_path: Path):
    """The hub fills what the test file does not have with placeholders."""
    filled = {"supporting_facts": [{"key": "None", "value": -1}], "label": -1, "num_hops": -1}
    write(tmp_path / "hover/default/test/0000.parquet", [{"uid": "t", "claim": "C.", **filled}])
    claims = load(tmp_path, BENCHMARK["hover"]).claims
    assert [("t", None, None, None)] == claims.select(
        "native_id", "label", "evidence", "num_hops"
    ).rows()


@pytest.mark.parametrize(
    ("name", "change", "field", "reason"),
    [
        ("pubmedclaim", {"context": {"contexts": None}}, "context.contexts", "missing_field"),
        ("hover", {"supporting_facts": [{"key": None, "value": 0}]}, "supporting_facts", None),
        ("hover", {"label": 7}, "label", "unknown_label"),
        ("pubhealth", {"label": -1}, "label", "unknown_label"),
        ("scifact", {"evidence_sentences": [9]}, "evidence", "dangling_reference"),
        ("fever", {"evidence_sentence_id": None}, "evidence_sentence_id", "missing_field"),
        ("feverous", {"evidence": [{"content": ["Orla"]}]}, "evidence", "dangling_reference"),
    ],
)
def test_a_bad_row_of_the_hubs_form_is_rejected_alone(
    name: str, change: Mapping[str, object], field: str, reason: str | None, tmp_path: Path
):
    """Its neighbours are read, and it is counted."""
    member, _, path, hub = FORMS[name]
    last = hub[-1]
    beside(tmp_path)
    # JSON lines, whose rows may have values of different types.
    file = path.replace("-00000-of-00001.parquet", ".jsonl").replace("/0000.parquet", ".jsonl")
    file = file.replace("/default/", "/")
    ident = next(key for key in ("pubid", "uid", "claim_id", "id") if key in last)
    bad = {**last, ident: 99 if isinstance(last[ident], int) else "99", **change}
    if name == "scifact":
        bad |= {"evidence_doc_id": "31", "evidence_label": "SUPPORT"}
    write(tmp_path / file, [*hub, bad])
    loaded = load(tmp_path, member)
    found = loaded.rejects.select("row", "field", "reason").rows()
    assert [(len(hub) + 1, field, reason or "missing_field")] == found
    assert_conserved(loaded)


def test_rows_of_one_claim_that_disagree_are_one_reject(tmp_path: Path):
    """A claim with two labels is neither; it counts once, as a claim of several rows does."""
    changed = [{**row, "label": "REFUTES"} if n == 1 else row for n, row in enumerate(FEVER_HUB)]
    write(tmp_path / "fever/v1.0/paper_test.parquet", changed)
    loaded = load(tmp_path, BENCHMARK["fever"])
    assert [(1, "label", "conflicting_rows")] == loaded.rejects.select(
        "row", "field", "reason"
    ).rows()
    assert "row 1: 'SUPPORTS'; row 2: 'REFUTES' (rows 1, 2, 3)" == loaded.rejects["detail"][0]
    assert ["2", "3"] == loaded.claims["native_id"].to_list()
    assert_conserved(loaded)


def test_several_forms_in_one_folder_are_read_once(tmp_path: Path):
    """The native file wins; the others are named, and no row is a repeat."""
    beside(tmp_path)
    names = [
        "hover/hover_train_release_v1.1.json",
        "hover/default/train/0000.parquet",
        "hover/train.jsonl",
    ]
    for name in names:
        write(tmp_path / name, HOVER if name.endswith("1.json") else HOVER_HUB)
    loaded = load(tmp_path, SOURCE["hover"])
    assert ((names[0],), {names[0]: tuple(names[1:])}) == (loaded.files, loaded.unread)
    assert (2, 2, 0) == (loaded.claims.height, loaded.rows_read, loaded.drops.height)
    (tmp_path / names[0]).unlink()
    again = load(tmp_path, SOURCE["hover"])
    assert {names[1]: (names[2],)} == again.unread
    assert loaded.claims.rows() == again.claims.rows()
    (status,) = corpora_status(FolderCorpora(tmp_path), [SOURCE["hover"]], [])
    assert (names[1],) == status.present
    assert ("hover/hover_dev_release_v1.1.json",) == status.missing


@pytest.mark.parametrize("member", [*SOURCES, *BENCHMARKS], ids=lambda one: one.name)
def test_an_unknown_form_is_refused_with_the_known_ones(member: Source | Benchmark, tmp_path: Path):
    """For every corpus of the catalogue: the file, its columns, and each form with its columns."""
    file = (*member.files, *getattr(member, "claim_lists", ()))[0]
    write(tmp_path / "pubmedqa/test_ground_truth.json", {"14": "yes"})
    row = {"text_a": "C.", "verdict_b": 1}
    rows: Any = {"1": row} if file.format == "json_object" else [row]
    if file.format == "csv":
        (tmp_path / file.path).parent.mkdir(parents=True)
        pl.DataFrame(rows).write_csv(tmp_path / file.path)
    else:
        write(tmp_path / file.path, rows)
    with pytest.raises(SourceFileError) as caught:
        load(tmp_path, member)
    message = str(caught.value)
    assert f"{member.name}: {file.path}: no row has the columns of a known form" in message
    assert "it has text_a, verdict_b" in message.replace("_key, ", "").replace(", _key", "")
    assert member.forms
    assert all(str(form) in message for form in member.forms)


def test_a_file_of_half_a_form_is_unknown_and_a_row_of_half_a_form_is_a_reject(tmp_path: Path):
    """Where one row has all columns, the form is known, and a row without one is its own fault."""
    whole = HEALTH[0]
    half = {name: value for name, value in HEALTH[2].items() if name != "main_text"}
    path = tmp_path / "pubhealth/train.jsonl"
    write(path, [half, half])
    with pytest.raises(SourceFileError, match="it has claim_id, claim, label; known are"):
        load(tmp_path, SOURCE["pubhealth"])
    write(path, [half, whole])
    loaded = load(tmp_path, SOURCE["pubhealth"])
    assert [(1, "main_text", "missing_field")] == loaded.rejects.select(
        "row", "field", "reason"
    ).rows()
    assert 1 == loaded.claims.height
