"""The forms in which corpora are published: the same claims out of each, and one of them read.

The hub's layouts are those of its dataset cards and loading scripts.
"""

import json
import re
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from pyarrow import parquet

from corpora_parts import LENIENT, assert_conserved, claimed, rejected
from decomposerl.claims.load import LoadedClaims, load_benchmark, load_source
from decomposerl.claims.source import Benchmark
from decomposerl.errors import SourceFileError
from native_rows import BENCHMARK, MEMBERS, SOURCE, Member, named
from resources.corpora.folder import FolderCorpora
from resources.corpora.status import corpora_status

Rows = Sequence[Mapping[str, Any]]
KEPT = ["claim_id", "native_id", "split", "claim", "passages", "label", "document_id"]
ABSTRACTS = [{"doc_id": 31, "abstract": ["One.", "Two."]}, {"doc_id": 32, "abstract": ["Three."]}]


@dataclass(frozen=True)
class Form:
    """Rows of a corpus as its own file has them and, at ``path``, as the hub has them."""

    member: Member
    native: Any
    path: str
    hub: Rows


FILE = Path(__file__).with_name("forms.json")
FORMS = {
    name: Form({named(one): one for one in MEMBERS}[rows.pop("member")], **rows)
    for name, rows in json.loads(FILE.read_text("utf-8")).items()
}


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


def load(root: Path, one: Member) -> LoadedClaims:
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


@pytest.mark.parametrize("name", FORMS)
def test_each_form_gives_the_same_claims(name: str, tmp_path: Path):
    """Ids, splits, texts, labels, documents and drops; every row is counted in both."""
    form = FORMS[name]
    member, loaded = form.member, []
    for folder, file, rows in (
        ("a", member.files[0].path, form.native),
        ("b", form.path, form.hub),
    ):
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
    write(tmp_path / "scifact/claims/train/0000.parquet", FORMS["scifact"].hub)
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
    assert [(["One.", "Six."], "Supported"), (["Two."], "Refuted")] == claimed(
        loaded, "passages", "label"
    )
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
    member, path, hub = FORMS[name].member, FORMS[name].path, FORMS[name].hub
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
    found = rejected(loaded)
    assert [(len(hub) + 1, field, reason or "missing_field")] == found
    assert_conserved(loaded)


def test_rows_of_one_claim_that_disagree_are_one_reject(tmp_path: Path):
    """A claim with two labels is neither; it counts once, as a claim of several rows does."""
    first, second, *others = FORMS["fever"].hub
    changed = [first, {**second, "label": "REFUTES"}, *others]
    write(tmp_path / "fever/v1.0/paper_test.parquet", changed)
    loaded = load(tmp_path, BENCHMARK["fever"])
    assert [(1, "label", "conflicting_rows")] == rejected(loaded)
    detail = loaded.rejects["detail"][0]
    assert ["1", "SUPPORTS", "2", "REFUTES", "1", "2", "3"] == re.findall(r"\d|[A-Z]{4,}", detail)
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
    form = FORMS["hover"]
    for name in names:
        write(tmp_path / name, form.native if name == names[0] else form.hub)
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


@pytest.mark.parametrize("member", MEMBERS, ids=named)
def test_an_unknown_form_is_refused_with_the_known_ones(member: Member, tmp_path: Path):
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
    assert message.startswith(f"{member.name}: {file.path}: ")
    assert "text_a, verdict_b" in message.replace("_key, ", "").replace(", _key", "")
    assert member.forms
    assert all(str(form) in message for form in member.forms)


def test_a_file_of_half_a_form_is_unknown_and_a_row_of_half_a_form_is_a_reject(tmp_path: Path):
    """Where one row has all columns, the form is known, and a row without one is its own fault."""
    whole, _, other, _ = FORMS["pubhealth"].native
    half = {name: value for name, value in other.items() if name != "main_text"}
    path = tmp_path / "pubhealth/train.jsonl"
    write(path, [half, half])
    with pytest.raises(SourceFileError, match="claim_id, claim, label;"):
        load(tmp_path, SOURCE["pubhealth"])
    write(path, [half, whole])
    loaded = load(tmp_path, SOURCE["pubhealth"])
    assert [(1, "main_text", "missing_field")] == rejected(loaded)
    assert 1 == loaded.claims.height
