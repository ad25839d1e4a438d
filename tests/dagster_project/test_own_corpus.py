"""``init corpus`` on invented files in the forms of public data sets: read right, or asked."""

import csv
import json
import shlex
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import cast

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
from decomposerl.claims.source import CorpusFiles, NativeFile
from resources.corpora.folder import FolderCorpora
from strategies import LAW

Row = dict[str, object]
CASES = json.loads(Path(__file__).with_name("public_forms.json").read_text("utf-8"))


class Fact:
    """A claim that its two sentences of evidence support, or else contradict."""

    def __init__(self, number: int) -> None:
        self.good = number % 2 == 0
        self.claim = f"The mill at Orn number {number} was built in {1800 + number}."
        built = 1800 + number if self.good else 1700 + number
        self.sentences = [f"Mill {number} at Orn is of grey stone.", f"It was built in {built}."]
        self.text = " ".join(self.sentences)
        first, second = self.sentences
        self._words = {"n": number, "claim": self.claim, "text": self.text}
        self._words |= {"first": first, "second": second, "listed": repr(self.sentences)}

    def of(self, form: object) -> object:
        """A form with this fact in the place of its marks, by whether the claim is good or bad."""
        if isinstance(form, list):
            return [self.of(inner) for inner in form]
        if isinstance(form, dict):
            good = form.get("good" if self.good else "bad")
            return {k: self.of(v) for k, v in form.items()} if good is None else good
        if form == "{sentences}":
            return self.sentences
        return form.format_map(self._words) if isinstance(form, str) else form


FACTS = [Fact(number) for number in range(8)]


def write(path: Path, how: str, rows: list[Row]) -> None:
    """Rows as ``how`` says: a table, one file a class, or JSON of several layouts."""
    if how == "by_class":
        path.mkdir()
        for side in ("consistent", "inconsistent"):
            kept = [{**row} for row in rows if row["side"] == side]
            write(path / f"dodeca_{side}.csv", "table", [row for row in kept if row.pop("side")])
    elif how in {"table", "excel"}:
        mark = ";" if how == "excel" else "\t" if path.suffix == ".tsv" else ","
        encoding = "utf-8-sig" if how == "excel" else "utf-8"
        with path.open("w", newline="", encoding=encoding) as stream:
            writer = csv.DictWriter(stream, list(rows[0]), delimiter=mark)
            writer.writeheader()
            writer.writerows(rows)
    elif how == "with_classes":
        names = {"label": {"names": ["SUPPORTS", "REFUTES"], "_type": "ClassLabel"}}
        told = {"huggingface": json.dumps({"info": {"features": names}})}
        parquet.write_table(pa.Table.from_pylist(rows).replace_schema_metadata(told), path)
    else:
        by_column = {name: {str(n): row[name] for n, row in enumerate(rows)} for name in rows[0]}
        whole = {"array": rows, "wrapped": {"version": "1", "samples": rows}, "columns": by_column}
        text = (
            json.dumps(whole[how], indent=1) if how in whole else "\n".join(map(json.dumps, rows))
        )
        path.write_text(text, "utf-8")


def init(name: str, file: Path, corpora: Path, *words: str) -> Result:
    told = ("init", "corpus", name, "--from", str(file), "--corpora", str(corpora), *words)
    return CliRunner(env={"COLUMNS": "200"}).invoke(app, told)


def read(corpora: Path, name: str) -> LoadedClaims:
    text = (corpora / name / "source.toml").read_text("utf-8")
    return load_source(parse_source_toml(text, "f"), None, FolderCorpora(corpora), LoadSettings())


@pytest.mark.parametrize("name", CASES)
def test_a_public_form_is_read_right_or_its_polarity_is_asked(name: str, tmp_path: Path):
    """Claims with their labels and all of their evidence, and nothing that tells the label."""
    case, corpora = CASES[name], tmp_path / "corpora"
    path, options = tmp_path / case["file"], case["options"]
    rows = [dict(fact.of(case["row"])) for fact in FACTS]  # type: ignore[call-overload]
    write(path, case["write"], [*rows, *({**rows[0], **also} for also in case.get("also", ()))])
    done = init(name, path, corpora)
    if options:
        assert 2 == done.exit_code, done.output
        assert options in done.stderr.splitlines()
        assert not corpora.exists()
        assert sum(FACTS[1].claim in line for line in done.stderr.splitlines())
        done = init(name, path, corpora, *shlex.split(options))
    assert 0 == done.exit_code, done.output
    claims = read(corpora, name).claims.sort("claim").to_dicts()
    for fact, claim in zip(FACTS, claims, strict=True):
        assert fact.claim in claim["claim"]
        assert claim["label"] == ("Supported" if fact.good else "Refuted")
        assert all(sentence in claim["evidence"] for sentence in fact.sentences)
        assert len(claim["passages"]) > 1
        told = ("SUPPORTS", "REFUTES", "https://", "yes", "attributable")
        assert not any(word in claim["evidence"] for word in told)


KEYS = st.sampled_from(("text", "title", "rows", "label", "evidence_score"))
LEAVES = st.text("abc 大桥", min_size=1).filter(str.strip) | st.integers() | st.none()
NESTED = st.recursive(
    LEAVES | st.just("https://example.org/a"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=12,
)


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
    files = cast("CorpusFiles", SimpleNamespace(records=lambda file: [Record(file.path, 1, row)]))
    (draft,) = reader(files, NativeFile("a.jsonl", "jsonl", "train"))
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
        write(Path(folder, "a.jsonl"), "lines", rows)
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
    shown = init("own", tmp_path / "a.json", tmp_path / "corpora", *words, "--preview", "3")
    assert (3, False) == (shown.stdout.count("Supported (native"), (tmp_path / "corpora").exists())
    done = init("own", tmp_path / "a.json", tmp_path / "corpora", *words)
    assert 0 == done.exit_code, done.output
    assert {"Supported": 4} == dict(
        read(tmp_path / "corpora", "own").claims["label"].value_counts().rows()
    )


def test_a_folder_that_datasets_saved_is_read(tmp_path: Path):
    """Its splits are known by their folders, its classes by their names."""
    datasets = pytest.importorskip("datasets")
    made = datasets.Dataset.from_list(
        [{"claim": f.claim, "evidence": f.text, "label": int(not f.good)} for f in FACTS]
    ).cast_column("label", datasets.ClassLabel(names=["SUPPORTS", "REFUTES"]))
    datasets.DatasetDict({"train": made, "test": made}).save_to_disk(str(tmp_path / "saved"))
    done = init("own", tmp_path / "saved", tmp_path / "corpora")
    assert 0 == done.exit_code, done.output
    labels = dict(read(tmp_path / "corpora", "own").claims["label"].value_counts().rows())
    assert {"Supported": 4, "Refuted": 4} == labels
    assert "benchmark/own: 8 rows" in done.stdout
