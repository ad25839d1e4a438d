"""``init corpus`` on invented files in the forms of public data sets: read right, or asked."""

import csv
import gzip
import json
import os
import pty
import re
import shlex
import subprocess
import sys
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
from dagster_project.own_corpus import guessed, lay_out
from decomposerl.claims.claim import EvidenceKind, Record, Reject
from decomposerl.claims.column_guess import Role, Side
from decomposerl.claims.generic import ColumnMap, EvidenceShape, RowReader, parse_corpus_toml
from decomposerl.claims.load import LoadedClaims, LoadSettings, load_source
from decomposerl.claims.source import CorpusFiles, NativeFile
from project import PYTHONPATH
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
        keyed = {f"c{number}": row for number, row in enumerate(rows)}
        whole = {
            "array": rows,
            "keyed": keyed,
            "wrapped": {"version": "1", "samples": rows},
            "columns": by_column,
        }
        text = (
            json.dumps(whole[how], indent=1) if how in whole else "\n".join(map(json.dumps, rows))
        )
        path.write_text(text, "utf-8")


def init(name: str, file: Path, corpora: Path, *words: str) -> Result:
    told = ("init", "corpus", name, "--from", str(file), "--corpora", str(corpora), *words)
    return CliRunner(env={"COLUMNS": "200"}).invoke(app, told)


def read(corpora: Path, name: str, **changes: float) -> LoadedClaims:
    text = (corpora / name / "source.toml").read_text("utf-8")
    source, settings = parse_corpus_toml(text, "f")[0], LoadSettings(**changes)
    return load_source(source, None, FolderCorpora(corpora), settings)


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


def at(value: object, path: list[str]) -> Iterator[str]:
    """The strings at a path through objects and lists that are evidence."""
    if not path:
        yield from leaves(value)
    elif isinstance(value, list):
        yield from (text for inner in value for text in at(inner, path))
    elif isinstance(value, dict):
        yield from at(value.get(path[0]), path[1:])


ROWS = st.lists(st.text("abc 大桥", min_size=1) | st.dictionaries(KEYS, NESTED) | st.lists(NESTED))


@given(
    ROWS,
    st.lists(KEYS, max_size=3),
    st.sampled_from(["list", "text"]),
    st.sampled_from(["text", "table"]),
)
@LAW
def test_every_text_of_the_evidence_stands_in_the_passages(
    evidence: list[object], path: list[str], cell: str, kind: EvidenceKind
):
    """Of any nesting, by the whole column and by a path through its lists, also in a text cell."""
    column = ".".join(["facts", *path])
    columns = ColumnMap(claim="claim", evidence=(column,), label="label")
    reader = RowReader(columns, EvidenceShape(kind=kind))
    facts = json.dumps(evidence) if cell == "text" else evidence
    row: Row = {"claim": "C.", "label": "yes", "facts": facts}
    files = cast("CorpusFiles", SimpleNamespace(records=lambda file: [Record(file.path, 1, row)]))
    (draft,) = reader(files, NativeFile("a.jsonl", "jsonl", "train"))
    texts = list(at(evidence, path))
    if isinstance(draft, Reject):
        assert (column, "missing_field", []) == (draft.field, draft.reason, texts)
        return
    shown = "\n".join(draft.passages)
    assert all(text in shown for text in texts)
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
        root = Path(folder).resolve()
        files = lay_out(root / "a.jsonl", "own", root, "", root / "place")
        text = guessed("own", root / "place", files, named, sides)
    read = tomllib.loads(text)
    assert evidence == read["columns"]["evidence"]
    assert [f"{label}1"] == read["labels"]["supported"]
    assert "own" == parse_corpus_toml(text, "source.toml")[0].name


REFUSED = json.loads(Path(__file__).with_name("refused_files.json").read_text("utf-8"))


@pytest.mark.parametrize(("name", "text", "encoding", "says"), REFUSED)
def test_what_cannot_be_read_is_refused_with_the_way_out(
    name: str, text: str | None, encoding: str, says: str, tmp_path: Path
):
    """Spreadsheets, encodings, lists of rows, rows without a label; the file as it was named."""
    path = tmp_path / name
    if text is not None:
        data = text.encode(encoding)
        path.write_bytes(gzip.compress(data)[:-9] if path.suffix == ".gz" else data)
    done = init("own", path, tmp_path / "corpora")
    assert (2, True) == (done.exit_code, says.format(path=path) in done.stderr), done.output
    assert not (tmp_path / "corpora").exists()


def test_rows_within_rows_are_claims_whose_label_is_that_of_the_majority(tmp_path: Path):
    """The layout of QAGS: sentences of a summary, each with three answers, beside the article."""
    votes = [["yes", "no", "yes"], ["no", "no", "yes"], ["yes", "no"]]
    row = {
        "article": "The mill is of grey stone. It was built in 1801.",
        "summary_sentences": [
            {"sentence": f"The mill has {n} floors.", "responses": [{"response": v} for v in three]}
            for n, three in enumerate(votes)
        ],
    }
    write(tmp_path / "a.jsonl", "lines", [row, row | {"summary_sentences": None}])
    words = "--records summary_sentences --label responses.response --supported yes --refuted no"
    done = init("qags", tmp_path / "a.jsonl", tmp_path / "corpora", *words.split())
    assert 0 == done.exit_code, done.output
    loaded = read(tmp_path / "corpora", "qags", max_reject_share=1.0)
    assert ["Supported", "Refuted"] == loaded.claims["label"].to_list()
    assert {row["article"]} == set(loaded.claims["evidence"].str.replace("\n", " "))
    assert [("label", "has no majority")] == [
        (field.replace("responses.response", "label"), detail)
        for field, detail in loaded.rejects.select("field", "detail").rows()
    ]


TERMINAL = """
import sys
from dagster_project.cli import app
sys.argv[0] = "decomposerl"
app()
"""


def test_on_a_terminal_the_reading_is_asked(tmp_path: Path):
    """Two claims of each reading, then the number of one; an answer that is none is asked again."""
    rows = [{**fact.of(CASES["numbers"]["row"])} for fact in FACTS]  # type: ignore[dict-item]
    write(tmp_path / "a.csv", "table", rows)
    words = ("init", "corpus", "own", "--from", "a.csv", "--corpora", "corpora")
    here, there = pty.openpty()
    os.write(here, b"7\n2\n")
    done = subprocess.run(
        [sys.executable, "-c", TERMINAL, *words],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": PYTHONPATH},
        stdin=there,
        stdout=subprocess.PIPE,
        stderr=there,
        check=False,
        timeout=120,
    )
    os.close(there)
    shown = os.read(here, 1 << 16).decode()
    os.close(here)
    assert 0 == done.returncode, shown
    assert (2, 2) == (shown.count(FACTS[0].claim), shown.count(FACTS[1].claim))
    options = re.findall(r"^--\S+ (\S+) --\S+ (\S+)\r?$", shown, re.MULTILINE)
    sides = tomllib.loads((tmp_path / "corpora/own/source.toml").read_text("utf-8"))["labels"]
    chosen = {sides["supported"][0], sides["refuted"][0]}
    assert (2, chosen) == (len(options), set(options[1]))


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
