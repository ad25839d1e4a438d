"""``init corpus`` on invented files in the forms of public data sets: read right, or asked."""

import csv
import json
import shlex
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet
from typer.testing import CliRunner, Result

from dagster_project.cli import app
from dagster_project.own_corpus import guessed
from decomposerl.claims.claim import Draft, Record
from decomposerl.claims.column_guess import Role, Side
from decomposerl.claims.generic import parse_source_toml
from decomposerl.claims.generic_rows import ColumnMap, EvidenceShape, RowReader
from decomposerl.claims.load import LoadedClaims, LoadSettings, load_source
from decomposerl.claims.source import NativeFile
from resources.corpora.folder import FolderCorpora
from strategies import LAW

Row = dict[str, object]
CHINESE = ("临江大桥于一九九八年建成通车。", "大桥全长一千二百米。")


class Fact:
    """A claim that its two sentences of evidence support, or else contradict."""

    def __init__(self, number: int) -> None:
        self.number, self.good = number, number % 2 == 0
        self.claim = f"The mill at Orn number {number} was built in {1800 + number}."
        built = 1800 + number if self.good else 1700 + number
        self.sentences = [f"Mill {number} at Orn is of grey stone.", f"It was built in {built}."]
        self.text = " ".join(self.sentences)

    def word(self, good: object, bad: object) -> object:
        """The label of this fact."""
        return good if self.good else bad


FACTS = [Fact(number) for number in range(8)]


def lines(path: Path, rows: list[Row]) -> None:
    path.write_text("\n".join(map(json.dumps, rows)), "utf-8")


def table(path: Path, rows: list[Row]) -> None:
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(
            stream, list(rows[0]), delimiter="\t" if path.suffix == ".tsv" else ","
        )
        writer.writeheader()
        writer.writerows(rows)


def excel(path: Path, rows: list[Row]) -> None:
    with path.open("w", newline="", encoding="utf-8-sig") as stream:
        writer = csv.DictWriter(stream, list(rows[0]), delimiter=";")
        writer.writeheader()
        writer.writerows(rows)


def wrapped(path: Path, rows: list[Row]) -> None:
    path.write_text(json.dumps({"version": "1.2", "samples": rows}, indent=1), "utf-8")


def array(path: Path, rows: list[Row]) -> None:
    path.write_text(json.dumps(rows), "utf-8")


def columns(path: Path, rows: list[Row]) -> None:
    named = {name: {str(n): row[name] for n, row in enumerate(rows)} for name in rows[0]}
    path.write_text(json.dumps(named), "utf-8")


def with_classes(path: Path, rows: list[Row]) -> None:
    names = {"label": {"names": ["SUPPORTS", "REFUTES"], "_type": "ClassLabel"}}
    told = {"huggingface": json.dumps({"info": {"features": names}})}
    parquet.write_table(pa.Table.from_pylist(rows).replace_schema_metadata(told), path)


def by_class(path: Path, rows: list[Row]) -> None:
    path.mkdir()
    for side in ("consistent", "inconsistent"):
        kept = [{**row, "side": ""} for row in rows if row["side"] == side]
        table(
            path / f"dodeca_{side}.csv",
            [{k: v for k, v in row.items() if k != "side"} for row in kept],
        )


Case = tuple[str, Callable[[Path, list[Row]], None], Callable[[Fact], Row], str]
CASES: Mapping[str, Case] = {
    "halueval": ("a.jsonl", lines, lambda f: {
        "ID": str(f.number), "document": f.text, "response": f.claim,
        "hallucination": f.word("no", "yes"), "hallucination_spans": []},
        "--supported no --refuted yes"),
    "fake_news": ("a.csv", table, lambda f: {
        "id": f.number, "title": f.claim, "text": f.text, "is_fake": f.word(False, True)},
        "--supported False --refuted True"),
    "averitec": ("a.json", array, lambda f: {
        "claim": f.claim, "label": f.word("Supported", "Refuted"), "speaker": None,
        "article_url": f"https://example.org/check/{f.number}",
        "questions": [{"question": "When was it built?", "answers": [
            {"answer": s, "answer_type": "Extractive", "source_url": "https://example.org/s"}
            for s in f.sentences]}]}, ""),
    "climate_fever": ("a.jsonl", lines, lambda f: {
        "claim_id": str(f.number), "claim": f.claim, "claim_label": f.word("SUPPORTS", "REFUTES"),
        "evidences": [{"evidence_id": "T:0", "evidence_label": f.word("SUPPORTS", "REFUTES"),
                       "article": "Town", "evidence": s, "entropy": 0.2,
                       "votes": [f.word("SUPPORTS", "REFUTES"), None]} for s in f.sentences]}, ""),
    "covid_fact": ("a.jsonl", lines, lambda f: {
        "claim": f.claim, "label": f.word("SUPPORTED", "REFUTED"), "evidence": f.sentences,
        "gold_source": "https://example.org/a", "flair": "News"}, ""),
    "healthver": ("a.csv", table, lambda f: {
        "id": f.number, "evidence": f.text, "claim": f.claim,
        "label": f.word("Supports", "Refutes"), "topic_ip": 3, "question": "When?"}, ""),
    "begin": ("a.tsv", table, lambda f: {
        "model": "t5", "data_source": "wow", "knowledge": f.text,
        "message": f"I like mills such as number {f.number}, tell me more about them please!",
        "response": f.claim, "begin_label": f.word("Fully attributable", "Not attributable")}, ""),
    "faithbench_json": ("a.json", wrapped, lambda f: {
        "sample_id": f.number, "source": f.text, "summary": f.claim,
        "label": f.word("Consistent", "Unwanted"), "metadata": {"summarizer": "m", "hhemv1": 0.5}},
        "--refuted Unwanted"),
    "faithbench_csv": ("a.csv", table, lambda f: {
        "sample_id": f.number, "source": f.text, "summary": f.claim, "summarizer": "m",
        "worst-label": f.word("Consistent", "Unwanted"), "hhemv1": 0.5}, "--refuted Unwanted"),
    "q2": ("q2", by_class, lambda f: {
        "episode_idx": f.number, "topic": "Mills of the valley of the river Orn in the far north",
        "response": f.claim, "knowledge": f.text, "side": f.word("consistent", "inconsistent")},
        "--supported dodeca_consistent --refuted dodeca_inconsistent"),
    "tofueval": ("a.csv", table, lambda f: {
        "doc_id": f"d{f.number}", "source": f.text, "topic": "Mills", "model_name": "m",
        "sent_idx": 0, "summ_sent": f.claim, "sent_label": f.word("yes", "no"), "exp": ""},
        "--supported yes --refuted no"),
    "quantemp": ("a.json", array, lambda f: {
        "country_of_origin": "x", "lang": "en",
        "label": "Conflicting" if f.number > 5 else f.word("True", "False"),
        "url": f"https://example.org/{f.number}", "claim": f.claim, "doc": f.text,
        "taxonomy_label": "temporal"}, ""),
    "expertqa": ("a.jsonl", lines, lambda f: {
        "question": "When was the mill at Orn built, and by whom?", "claim_string": f.claim,
        "evidence": ["https://example.org/q", *f.sentences], "reliability": "Somewhat",
        "support": f.word("Complete", "Missing")}, "--refuted Missing"),
    "vitaminc": ("a.jsonl", lines, lambda f: {
        "unique_id": f"u{f.number}", "case_id": "c", "wiki_revision_id": 5, "claim": f.claim,
        "evidence": f.text, "label": f.word("SUPPORTS", "REFUTES"), "page": "Orn"}, ""),
    "parquet_classes": ("a.parquet", with_classes, lambda f: {
        "claim": f.claim, "evidence": f.text, "label": f.word(0, 1)}, ""),
    "titled_sentences": ("a.parquet", with_classes, lambda f: {
        "claim": f.claim, "evidence": [{"title": "Orn", "sentences": f.sentences}],
        "label": f.word("SUPPORTS", "REFUTES")}, ""),
    "excel": ("a.csv", excel, lambda f: {
        "id": f.number, "claim": f.claim, "evidence": f.text + ' "Yes", he said; no.',
        "label": f.word("SUPPORTS", "REFUTES")}, ""),
    "chinese": ("a.jsonl", lines, lambda f: {
        "id": f.number, "claim": f"{CHINESE[0]}{f.claim}", "evidence": [*CHINESE, *f.sentences],
        "label": f.word("SUPPORTS", "REFUTES")}, ""),
    "list_cells": ("a.csv", table, lambda f: {
        "label": f.word("SUPPORTS", "REFUTES"), "claim": f.claim,
        "evidence": repr(f.sentences)}, ""),
    "pandas_columns": ("a.json", columns, lambda f: {
        "claim": f.claim, "evidence": f.text, "label": f.word("SUPPORTS", "REFUTES")}, ""),
    "numbers": ("a.csv", table, lambda f: {
        "claim": f.claim, "evidence": f.text, "label": f.word(1, 0)}, "--supported 1 --refuted 0"),
    "supported_numbers": ("a.csv", table, lambda f: {
        "claim": f.claim, "evidence": f.text, "is_supported": f.word(1, 0)}, ""),
}  # fmt: skip


def init(name: str, file: Path, corpora: Path, *words: str) -> Result:
    told = ["init", "corpus", name, "--from", str(file), "--corpora", str(corpora), *words]
    return CliRunner(env={"COLUMNS": "200"}).invoke(app, told)


def read(corpora: Path, name: str) -> LoadedClaims:
    text = (corpora / name / "source.toml").read_text("utf-8")
    return load_source(parse_source_toml(text, "f"), None, FolderCorpora(corpora), LoadSettings())


@pytest.mark.parametrize("name", CASES)
def test_a_public_form_is_read_right_or_its_polarity_is_asked(name: str, tmp_path: Path):
    """Claims with their labels and all of their evidence, and nothing that tells the label."""
    file, write, row, options = CASES[name]
    path, corpora = tmp_path / file, tmp_path / "corpora"
    write(path, [row(fact) for fact in FACTS])
    done = init(name, path, corpora)
    if options:
        assert 2 == done.exit_code, done.output
        assert options in done.stderr.splitlines()
        assert not corpora.exists()
        assert sum(FACTS[1].claim in line for line in done.stderr.splitlines())
        done = init(name, path, corpora, *shlex.split(options))
    assert 0 == done.exit_code, done.output
    claims = {row["claim"]: row for row in read(corpora, name).claims.iter_rows(named=True)}
    for fact in FACTS[: 6 if name == "quantemp" else 8]:
        claim = claims[next(text for text in claims if fact.claim in text)]
        assert fact.word("Supported", "Refuted") == claim["label"]
        assert all(sentence in claim["evidence"] for sentence in fact.sentences)
        told = ("SUPPORTS", "REFUTES", "https://", "yes", "attributable")
        assert not any(word in claim["evidence"] for word in told)


KEYS = st.sampled_from(("text", "title", "rows", "label", "evidence_score"))
LEAVES = st.text("abc 大桥", min_size=1).filter(str.strip) | st.integers() | st.none()
NESTED = st.recursive(
    LEAVES | st.just("https://example.org/a"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=12,
)


class Rows:
    """Corpus files of one row."""

    def __init__(self, row: Row) -> None:
        self.row = row

    def exists(self, path: str) -> bool:
        """It is always there."""
        return bool(path)

    def pages(self, path: str) -> None:
        """None: it has no page database."""

    def records(self, file: NativeFile) -> Iterator[Record]:
        """The row."""
        yield Record(file.path, 1, self.row)


def leaves(value: object) -> Iterator[str]:
    """The strings in a value that are evidence."""
    if isinstance(value, str):
        yield from [value] * (not value.startswith("http"))
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from leaves(inner) if key not in {"label", "evidence_score"} else ()
    elif isinstance(value, list):
        yield from (text for inner in value for text in leaves(inner))


@given(st.lists(st.text("abc 大桥", min_size=1) | st.dictionaries(KEYS, NESTED) | st.lists(NESTED)))
@LAW
def test_every_text_of_the_evidence_stands_in_the_passages(evidence: list[object]):
    """Of any nesting, by the whole column and by a path through its lists; the rest is counted."""
    columns = ColumnMap(claim="claim", evidence=("facts",), label="label")
    reader = RowReader(columns, EvidenceShape())
    row: Row = {"claim": "C.", "label": "yes", "facts": evidence}
    (draft,) = reader(Rows(row), NativeFile("a.jsonl", "jsonl", "train"))
    assert isinstance(draft, Draft)
    shown = "\n".join(draft.passages)
    assert all(text in shown for text in leaves(evidence))
    assert "http" not in shown


@given(st.text(), st.text(min_size=1), st.text(min_size=1))
@LAW
def test_whatever_is_in_the_file_the_toml_loads(value: str, column: str, label: str):
    """Names, values and labels of any text: comments stay comments, strings stay themselves."""
    evidence = f"{column}e"
    rows: list[Row] = [
        {"verdict": f"{label}{n}", "claim": f"{value}{n}", evidence: [value, str(n)]}
        for n in (1, 2)
    ]
    named: Mapping[Role, str] = {"claim": "claim", "evidence": evidence, "label": "verdict"}
    sides: Mapping[Side, list[str]] = {"supported": [f"{label}1"], "refuted": [f"{label}2"]}
    with TemporaryDirectory() as folder:
        lines(Path(folder, "a.jsonl"), rows)
        file = NativeFile("a.jsonl", "jsonl", "train")
        text = guessed("own", [file], Path(folder), named, sides)
    read = tomllib.loads(text)
    assert evidence == read["columns"]["evidence"]
    assert [f"{label}1"] == read["labels"]["supported"]
    assert "own" == parse_source_toml(text, "source.toml").name


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a.xlsx", b"PK", "CSV UTF-8"),
        ("a.csv", "claim;evidence;label\nA.;Grün.;yes\n".encode("cp1252"), "iconv"),
        ("a.json", b'{"train": [{"a": 1}], "test": [{"a": 1}]}', "--records"),
        (
            "a.jsonl",
            b'{"claim": "A claim.", "evidence": "A long line of evidence."}',
            "--label =WORD",
        ),
    ],
)
def test_what_cannot_be_read_is_refused_with_the_way_out(
    name: str, content: bytes, says: str, tmp_path: Path
):
    """A spreadsheet, another encoding, several lists of rows, rows without a label."""
    (tmp_path / name).write_bytes(content)
    done = init("own", tmp_path / name, tmp_path / "corpora")
    assert (2, True) == (done.exit_code, says in done.stderr), done.output


def test_rows_may_lie_in_an_entry_and_have_one_label(tmp_path: Path):
    """``--records`` leads to rows within rows' wrappers; ``--label =WORD`` is the label of all."""
    rows = [{"row": {"claim": fact.claim, "evidence": fact.text}} for fact in FACTS if fact.good]
    (tmp_path / "a.json").write_text(json.dumps({"a": {"rows": rows}, "b": [{}]}), "utf-8")
    words = ("--records", "a.rows", "--label", "=consistent")
    done = init("own", tmp_path / "a.json", tmp_path / "corpora", *words)
    assert 0 == done.exit_code, done.output
    assert {"Supported": 4} == dict(
        read(tmp_path / "corpora", "own").claims["label"].value_counts().rows()
    )


def test_a_folder_that_datasets_saved_is_read(tmp_path: Path):
    """Its splits are known by their folders, its classes by their names."""
    datasets = pytest.importorskip("datasets")
    made = datasets.Dataset.from_list(
        [{"claim": f.claim, "evidence": f.text, "label": f.word(0, 1)} for f in FACTS]
    ).cast_column("label", datasets.ClassLabel(names=["SUPPORTS", "REFUTES"]))
    datasets.DatasetDict({"train": made, "test": made}).save_to_disk(str(tmp_path / "saved"))
    done = init("own", tmp_path / "saved", tmp_path / "corpora")
    assert 0 == done.exit_code, done.output
    labels = dict(read(tmp_path / "corpora", "own").claims["label"].value_counts().rows())
    assert {"Supported": 4, "Refuted": 4} == labels
    assert "benchmark/own: 8 rows" in done.stdout
