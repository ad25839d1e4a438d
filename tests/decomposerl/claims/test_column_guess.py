"""The first ``source.toml`` of a corpus: columns and labels are guessed, and the file loads."""

import json
import tomllib
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decomposerl.claims.catalogue import SOURCES
from decomposerl.claims.column_guess import (
    Guess,
    Role,
    guess_columns,
    guess_sides,
    guess_split,
)
from decomposerl.claims.generic import native_file, parse_benchmark_toml, parse_source_toml
from decomposerl.claims.source import Source
from decomposerl.claims.source_file import source_toml
from decomposerl.errors import ConfigError
from strategies import LAW

Row = dict[str, object]
CLAIM, EVIDENCE = "The bridge was painted in 2011.", "It was painted in 2011. It took a month."


def rows(**columns: object) -> list[Row]:
    """Four rows of the same values, except for callables, which get the row's number."""
    return [
        {name: value(n) if callable(value) else value for name, value in columns.items()}
        for n in range(4)
    ]


def alternating(n: int) -> str:
    return ("SUPPORTS", "REFUTES")[n % 2]


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (
            {"uid": str, "hypothesis": CLAIM, "premise": EVIDENCE, "gold_label": alternating},
            {"id": "uid", "claim": "hypothesis", "evidence": "premise", "label": "gold_label"},
        ),
        (
            {"doc": EVIDENCE, "claim": CLAIM, "dataset": "a", "label": lambda n: n % 2},
            {"evidence": "doc", "claim": "claim", "subset": "dataset", "label": "label"},
        ),
        (  # names that say nothing: the short text, the long text, the column of known labels
            {"b": EVIDENCE, "c": CLAIM, "a": lambda n: n % 2 == 0},
            {"label": "a", "claim": "c", "evidence": "b"},
        ),
        (  # nested objects; a word within a name; a label's column that begins with one label
            {"meta": {"pageTitle": "x", "report": {"evidence_text": EVIDENCE}}, "theClaim": CLAIM,
             "label": "true"},
            {"label": "label", "claim": "theClaim", "evidence": "meta.report.evidence_text",
             "document": "meta.pageTitle"},
        ),
    ],
)  # fmt: skip
def test_columns_are_known_by_name_then_by_their_values(columns: Row, expected: Mapping[Role, str]):
    """No column has two roles; roles that nothing looks like are left out."""
    assert expected == guess_columns(rows(**columns), {}).columns


def test_a_named_column_is_not_guessed():
    """Its role is taken from the others; a column that is not there is refused with the columns."""
    data = rows(claim=CLAIM, statement=EVIDENCE, evidence=EVIDENCE, label=alternating)
    named: dict[Role, str] = {"claim": "statement", "evidence": "claim"}
    chosen = guess_columns(data, named).columns
    assert ("statement", "claim") == (chosen["claim"], chosen["evidence"])
    with pytest.raises(ConfigError, match="--claim: there is no column 'x'; the columns are claim"):
        guess_columns(data, {"claim": "x"})


@pytest.mark.parametrize(
    ("evidence", "shape"),
    [
        (EVIDENCE, ("text", "sentences")),
        ("one\ntwo\n", ("text", "lines")),
        (["one", "two"], ("text", "none")),
        ([["a", 1], ["b", 2]], ("table", "none")),
        ([{"a": 1}], ("table", "none")),
    ],
)
def test_the_shape_of_the_evidence(evidence: object, shape: tuple[str, str]):
    """Text in sentences or lines, a list of passages, a table."""
    guess = guess_columns(rows(claim=CLAIM, evidence=evidence, label=alternating), {})
    assert shape == (guess.kind, guess.split)


@pytest.mark.parametrize("absent", ["claim", "evidence", "label"])
def test_a_role_that_nothing_looks_like_is_asked_for(absent: str):
    """With the option that names it, and the columns."""
    full = {"claim": CLAIM, "evidence": EVIDENCE, "label": alternating}
    data = rows(**{name: value for name, value in full.items() if name != absent}, extra=[{}])
    if absent == "evidence":
        data = [{name: cell for name, cell in row.items() if name != "extra"} for row in data]
    with pytest.raises(ConfigError, match=f"looks like the {absent}: name it with --{absent}; the"):
        guess_columns(data, {})


@pytest.mark.parametrize("source", SOURCES, ids=lambda one: one.name)
def test_the_labels_of_the_catalogue_are_recognised(source: Source):
    """Every label of every corpus, on the side on which its adapter has it."""
    sides = {"supported": source.labels.supported, "refuted": source.labels.refuted,
             "middle": source.labels.middle}  # fmt: skip
    counts = {label: 1 for labels in sides.values() for label in labels}
    found = guess_sides(counts, {})
    assert [] == found["drop"]
    assert sides == {side: set(found[side]) for side in sides}  # type: ignore[index]


def test_unknown_labels_are_set_aside_and_named_ones_win():
    """They are dropped with a note, not put on a side; capitals and dashes make no difference."""
    counts = {"Not-Supported": 3, "TRUE": 5, "odd": 1, "nei": 2}
    assert {
        "supported": ["TRUE"],
        "refuted": ["Not-Supported"],
        "middle": ["nei"],
        "drop": ["odd"],
    } == guess_sides(counts, {})
    assert ["TRUE", "odd"] == guess_sides(counts, {"supported": ["odd"]})["supported"]


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        ({"0": 1, "1": 2, "2": 3}, r"no label looks like 'supported': name it with --supported"),
        ({"yes": 4}, r"no label looks like 'refuted': name it with --refuted; .* 'yes' \(4\)"),
        ({f"{n}th": 1 for n in range(60)}, "has 60 values: name it with --label"),
    ],
)
def test_labels_that_cannot_be_sorted_are_refused(counts: Mapping[str, int], said: str):
    """Three numbers, a side without a label, a column of ids."""
    with pytest.raises(ConfigError, match=said):
        guess_sides(counts, {})


def test_a_named_label_must_be_there():
    """A misspelled one would leave its rows out."""
    with pytest.raises(ConfigError, match="no row has the label 'yess'"):
        guess_sides({"yes": 1, "no": 1}, {"supported": ["yess"]})


@pytest.mark.parametrize(
    ("file", "split"),
    [("a/train.jsonl", "train"), ("a/dev_v2.csv", "dev"), ("test.json", "test"),
     ("a/latest.csv", "train"), ("test/rows.csv", "train"), ("validation-set.tsv", "dev")],
)  # fmt: skip
def test_the_split_is_in_the_files_name(file: str, split: str):
    """As a word of its own."""
    assert split == guess_split(file)


def test_a_file_outside_the_corpora_or_of_another_kind_is_refused():
    """The endings are those of the page."""
    assert ("a/b.csv", "csv") == (
        native_file("a/b.csv.gz", "dev").path,
        native_file("a/b.csv", "dev").format,
    )
    for path in ("../b.csv", "b.xlsx"):
        with pytest.raises(ConfigError, match=r"must be below|ends in none of"):
            native_file(path, "train")


@given(st.text(), st.text(min_size=1), st.text(min_size=1))
@LAW
def test_whatever_is_in_the_file_the_toml_loads(value: str, column: str, label: str):
    """Names, values and labels of any text: comments stay comments, strings stay themselves."""
    examples = {"claim": value, column: [value], "x\ny": {"a": value}}
    guess = Guess(
        {"claim": "claim", "evidence": column, "label": "claim"}, "text", "none", examples
    )
    sides = {
        "supported": [f"{label}1"],
        "refuted": [f"{label}2"],
        "middle": [],
        "drop": [f"{label}3"],
    }
    counts = {f"{label}{n}": n for n in (1, 2, 3)}
    text = source_toml(
        "own",
        f"own/{column.encode('utf-8', 'replace').hex()[:40]}.csv",
        "train",
        guess,
        sides,
        counts,
    )
    read = tomllib.loads(text)
    assert column == read["columns"]["evidence"]
    assert [f"{label}1"] == read["labels"]["supported"]
    assert "own" == parse_source_toml(text, "source.toml").name


def test_a_test_file_becomes_a_test_set():
    """It is never trained on."""
    guess = guess_columns(rows(claim=CLAIM, evidence=EVIDENCE, label=alternating), {})
    counts = {"SUPPORTS": 2, "REFUTES": 2}
    text = source_toml("own", "own/test.csv", "test", guess, guess_sides(counts, {}), counts)
    assert () == parse_source_toml(text, "f").files
    assert parse_benchmark_toml(text, "f") is not None
    assert json.dumps("own/test.csv") in text
