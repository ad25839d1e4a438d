"""A user's own corpus from one TOML file, in every format, with every mistake named."""

import csv
import json
import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import polars as pl
import pytest

from decomposerl.claims.generic import parse_benchmark_toml, parse_source_toml
from decomposerl.claims.load import Loaded, LoadSettings, load_benchmark, load_source
from decomposerl.errors import ConfigError
from resources.corpora import FolderCorpora

PAGE = (Path(__file__).parent.parent / "docs" / "adding-a-corpus.md").read_text(encoding="utf-8")
LENIENT = LoadSettings(max_reject_share=1)
BASE = """
[source]
name = "mine"
title = "Mine"
[files]
train = ["mine/{file}"]
[columns]
claim = "claim"
evidence = {evidence}
label = "label"
{columns}
[evidence]
{how}
[labels]
supported = [true]
refuted = [0, "no"]
middle = ["maybe"]
"""
Rows = list[dict[str, object]]


def block(language: str) -> str:
    """The page's code block in one language."""
    found = re.search(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    assert found is not None
    return found.group(1)


def toml(file: str = "a.jsonl", evidence: str = '"text"', columns: str = "", how: str = "") -> str:
    return BASE.format(file=file, evidence=evidence, columns=columns, how=how)


def write_jsonl(path: Path, rows: Rows) -> None:
    path.write_text("\n".join(json.dumps(row) for row in rows))


def write_json(path: Path, rows: Rows) -> None:
    path.write_text(json.dumps(rows, indent=1))


def write_parquet(path: Path, rows: Rows) -> None:
    pl.DataFrame(rows).write_parquet(path)


def write_delimited(path: Path, rows: Rows) -> None:
    with path.open("w", newline="") as stream:
        dialect = "excel-tab" if path.suffix == ".tsv" else "excel"
        writer = csv.DictWriter(stream, list(rows[0]), dialect=dialect)
        writer.writeheader()
        writer.writerows(rows)


def load(root: Path, text: str) -> Loaded:
    return load_source(parse_source_toml(text, "x.toml"), None, FolderCorpora(root), LENIENT)


def corpus(root: Path, rows: Rows, text: str, name: str = "a.jsonl") -> Loaded:
    (root / "mine").mkdir(exist_ok=True)
    write_jsonl(root / "mine" / name, rows)
    return load(root, text)


WRITERS: dict[str, Callable[[Path, Rows], None]] = {
    "a.jsonl": write_jsonl,
    "a.json": write_json,
    "a.parquet": write_parquet,
    "a.csv": write_delimited,
    "a.tsv": write_delimited,
}


@pytest.mark.parametrize("name", WRITERS)
def test_every_format_gives_the_same_claims(tmp_path: Path, name: str):
    """Booleans and numbers count as labels and ids whatever the format makes of them."""
    rows: Rows = [
        {"id": 1, "claim": "One, two.", "text": 'A "b".\nC.', "label": True, "hops": 2},
        {"id": 2, "claim": "Three.", "text": "D.", "label": False, "hops": 3},
    ]
    (tmp_path / "mine").mkdir()
    WRITERS[name](tmp_path / "mine" / name, rows)
    text = toml(name, columns='id = "id"\nnum_hops = "hops"', how='split = "lines"')
    loaded = load(tmp_path, text.replace("[0,", "[false,"))
    wanted = ["native_id", "claim", "passages", "label", "native_label", "num_hops"]
    assert [
        ("1", "One, two.", ['A "b".', "C."], "Supported", "true", 2),
        ("2", "Three.", ["D."], "Refuted", "false", 3),
    ] == [(*row[:4], row[4].lower(), row[5]) for row in loaded.claims.select(wanted).rows()]


def test_the_example_of_the_page_runs(tmp_path: Path):
    """The documented TOML reads the documented row, and its test file stays a test set."""
    folder = tmp_path / "bridge_notes"
    folder.mkdir()
    row = json.loads(block("json"))
    write_jsonl(folder / "train.jsonl", [row, {**row, "note_id": 8, "verdict": "unclear"}])
    write_jsonl(folder / "test.jsonl", [{**row, "note_id": 9, "verdict": "fails"}])
    source = parse_source_toml(block("toml"), "bridge.toml")
    benchmark = parse_benchmark_toml(block("toml"), "bridge.toml")
    assert benchmark is not None
    corpora = FolderCorpora(tmp_path)
    trained = load_source(source, benchmark, corpora, LENIENT)
    tested = load_benchmark(benchmark, source, corpora, LENIENT)
    assert [("7", "Supported", "North Arch", "hills", 2)] == trained.claims.select(
        "native_id", "label", "document_id", "subset", "num_hops"
    ).rows()
    assert [
        "It was repainted in 2011.",
        "The work took a month.",
        "New cables were fitted in 2014.",
    ] == trained.claims["passages"][0].to_list()
    assert ["middle_class"] == trained.drops["reason"].to_list()
    assert [("9", "Refuted")] == tested.claims.select("native_id", "label").rows()


def test_the_adapter_of_the_page_runs(tmp_path: Path):
    """The documented code is a working adapter."""
    module = ModuleType("bridge_notes")
    exec(block("python"), module.__dict__)  # noqa: S102 - the page's own example
    folder = tmp_path / "bridge_notes"
    folder.mkdir()
    row = {"note_id": 1, "statement": "S.", "report": "A.\nB.", "verdict": True, "bridge": "N"}
    write_jsonl(folder / "train.jsonl", [row, {**row, "note_id": 2, "report": None}])
    loaded = load_source(module.BRIDGE_NOTES, None, FolderCorpora(tmp_path), LENIENT)
    assert [("1", "A.\nB.", "Supported")] == loaded.claims.select(
        "native_id", "evidence", "label"
    ).rows()
    assert [("report", "missing_field")] == loaded.rejects.select("field", "reason").rows()


def test_evidence_may_be_nested_lists_and_tables(tmp_path: Path):
    """Dotted columns, several columns, rows of cells and objects become passages."""
    row = {
        "claim": "C.",
        "label": True,
        "caption": "Cap",
        "table": {"rows": [["a", 1], ["b", None], {"x": "c", "y": True}]},
    }
    text = toml(evidence='["caption", "table.rows"]', how='kind = "table"')
    loaded = corpus(tmp_path, [row], text)
    assert [["Cap", "a | 1", "b |", "c | true"]] == loaded.claims["passages"].to_list()
    assert ["table"] == loaded.claims["evidence_kind"].to_list()
    assert ["mine/a.jsonl:1"] == loaded.claims["native_id"].to_list()


def test_bad_rows_name_the_users_own_columns(tmp_path: Path):
    """Absent, null and mistyped fields are rejects; an empty list is empty evidence."""
    good: dict[str, object] = {"id": "g", "claim": "C.", "text": "T.", "label": 0, "hops": None}
    rows: Rows = [
        good,
        {**good, "id": "1", "claim": 5},
        {**good, "id": "2", "text": None},
        {**good, "id": "3", "text": {"a": 1}},
        {**good, "id": "4", "text": []},
        {**good, "id": "5", "label": [1]},
        {**good, "id": None},
        {**good, "id": "7", "hops": "two"},
        {**good, "id": "8", "label": 2},
        {**good, "id": "9", "text": [3]},
    ]
    loaded = corpus(tmp_path, rows, toml(columns='id = "id"\nnum_hops = "hops"'))
    assert [
        (2, "claim", "missing_field"),
        (3, "text", "missing_field"),
        (4, "text", "missing_field"),
        (5, "evidence", "empty_evidence"),
        (6, "label", "missing_field"),
        (7, "id", "missing_field"),
        (8, "hops", "missing_field"),
        (9, "label", "unknown_label"),
        (10, "text", "missing_field"),
    ] == loaded.rejects.select("row", "field", "reason").rows()
    assert ["g"] == loaded.claims["native_id"].to_list()


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("none", ["A b. C d!\nE"]),
        ("lines", ["A b. C d!", "E"]),
        ("sentences", ["A b.", "C d!", "E"]),
        ("separator: d", ["A b. C", "!\nE"]),
    ],
)
def test_evidence_is_cut_as_asked(tmp_path: Path, how: str, expected: list[str]):
    """The four ways to make passages of one text."""
    row: dict[str, object] = {"claim": "C.", "text": "A b. C d!\nE", "label": 0}
    loaded = corpus(tmp_path, [row], toml(how=f'split = "{how}"'))
    assert [expected] == loaded.claims["passages"].to_list()


def test_every_mistake_is_named_at_once():
    """The error names the file and, line by line, each key with what is wrong."""
    text = """
    [source]
    name = "My Corpus"
    licence = "x"
    [files]
    train = ["../a.jsonl", "b.xml", 3]
    [columns]
    evidence = []
    label = "l"
    [evidence]
    kind = "picture"
    split = "words"
    [labels]
    supported = []
    refuted = [{}]
    """
    with pytest.raises(ConfigError) as caught:
        parse_source_toml(text, "mine.toml")
    message = str(caught.value)
    assert all(line.startswith("mine.toml: ") for line in message.splitlines())
    keys = (
        "source.name", "source.title: is missing", "source.licence: is no key of this file",
        "files.train.0: must lie below", "files.train.1: ends in none of", "files.train.2",
        "columns.claim: is missing", "columns.evidence", "evidence.kind", "evidence.split: must be",
        "labels.supported", "labels.refuted",
    )  # fmt: skip
    assert [] == [key for key in keys if key not in message]


def test_contradictions_are_mistakes_too():
    """A label on two sides, no files, one file for training and testing, and no TOML."""
    twice = toml().replace('middle = ["maybe"]', 'middle = ["No"]')
    with pytest.raises(ConfigError, match="'no' stands on more than one side"):
        parse_source_toml(twice, "x.toml")
    with pytest.raises(ConfigError, match="files: names no file"):
        parse_source_toml(toml().replace('train = ["mine/a.jsonl"]', ""), "x.toml")
    both = toml().replace("[columns]", 'test = ["mine/a.jsonl.gz"]\n[columns]')
    with pytest.raises(ConfigError, match=r"a\.jsonl is trained on and tested on"):
        parse_source_toml(both, "x.toml")
    with pytest.raises(ConfigError, match=r"x\.toml: not TOML"):
        parse_source_toml("[source", "x.toml")
    assert parse_benchmark_toml(toml(), "x.toml") is None
