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
    with pytest.raises(ConfigError, match=r"--claim: .*'x'.*claim, "):
        guess_columns(data, {"claim": "x"})


def test_the_shape_of_the_evidence():
    """Text in sentences or lines, a list of passages, a table."""
    for evidence, shape in (
        (EVIDENCE, ("text", "sentences")),
        ("one\ntwo\n", ("text", "lines")),
        (["one", "two"], ("text", "none")),
        ([["a", 1], ["b", 2]], ("table", "none")),
        ([{"a": 1}], ("table", "none")),
    ):
        guess = guess_columns(rows(claim=CLAIM, evidence=evidence, label=alternating), {})
        assert shape == (guess.kind, guess.split), evidence


def test_a_role_that_nothing_looks_like_is_asked_for():
    """With the option that names it, and the columns."""
    full = {"claim": CLAIM, "evidence": EVIDENCE, "label": alternating}
    for absent in full:
        extra = {} if absent == "evidence" else {"extra": [{}]}
        data = rows(**{name: value for name, value in full.items() if name != absent}, **extra)
        with pytest.raises(ConfigError, match=f"--{absent};.*{min({*full} - {absent})}"):
            guess_columns(data, {})


def test_the_labels_of_the_catalogue_are_recognised():
    """Every label of every corpus, on the side on which its adapter has it."""
    for source in SOURCES:
        labels = source.labels
        counts = dict.fromkeys(labels.supported | labels.refuted | labels.middle, 1)
        found = {side: set(given) for side, given in guess_sides(counts, {}).items()}
        assert {
            "supported": labels.supported,
            "refuted": labels.refuted,
            "middle": labels.middle,
            "drop": set(),
        } == found, source.name


def test_unknown_labels_are_set_aside_and_named_ones_win():
    """They are dropped with a note, not put on a side; capitals and dashes make no difference."""
    counts = {"Not-Supported": 3, "TRUE": 5, "odd": 1, "nei": 2}
    sides = {"supported": ["TRUE"], "refuted": ["Not-Supported"], "middle": ["nei"]}
    assert sides | {"drop": ["odd"]} == guess_sides(counts, {})
    assert ["TRUE", "odd"] == guess_sides(counts, {"supported": ["odd"]})["supported"]


def test_labels_that_cannot_be_sorted_are_refused():
    """Three numbers, a side without a label, a column of ids; a named one must be there."""
    for counts, names in (
        ({"0": 1, "1": 2, "2": 3}, "'supported'.*--supported"),
        ({"yes": 4}, r"'refuted'.*--refuted.* 'yes' \(4\)"),
        ({f"{n}th": 1 for n in range(60)}, "60 .*--label"),
    ):
        with pytest.raises(ConfigError, match=names):
            guess_sides(counts, {})
    with pytest.raises(ConfigError, match="'yess'"):
        guess_sides({"yes": 1, "no": 1}, {"supported": ["yess"]})


def test_the_split_is_in_the_files_name():
    """As a word of its own; the endings are those of the page."""
    names = "a/train.jsonl a/dev_v2.csv test.json a/latest.csv test/rows.csv validation-set.tsv"
    assert "train dev test train train dev".split() == [guess_split(file) for file in names.split()]
    file = native_file("a/b.csv.gz", "dev")
    assert ("a/b.csv", "csv", "csv") == (
        file.path,
        file.format,
        native_file("a/b.csv", "dev").format,
    )
    for path in ("../b.csv", "b.xlsx"):
        with pytest.raises(ConfigError, match=r"below|ends in"):
            native_file(path, "train")


@given(st.text(), st.text(min_size=1), st.text(min_size=1))
@LAW
def test_whatever_is_in_the_file_the_toml_loads(value: str, column: str, label: str):
    """Names, values and labels of any text: comments stay comments, strings stay themselves."""
    examples = {"claim": value, column: [value], "x\ny": {"a": value}}
    guess = Guess(
        {"claim": "claim", "evidence": column, "label": "claim"}, "text", "none", examples
    )
    sides = {"supported": [f"{label}1"], "refuted": [f"{label}2"], "middle": []}
    sides["drop"] = [f"{label}3"]
    counts = {f"{label}{n}": n for n in (1, 2, 3)}
    path = f"own/{column.encode('utf-8', 'replace').hex()[:40]}.csv"
    text = source_toml("own", path, "train", guess, sides, counts)
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
