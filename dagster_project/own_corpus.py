"""``init corpus``: the files of a corpus of one's own and a first ``source.toml`` for them.

What the readers take stays as it is; Arrow streams and one JSON object of rows are rewritten.
"""

import gzip
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import polars as pl

from decomposerl.claims import column_guess as guessing
from decomposerl.claims.claim import Record, Reject
from decomposerl.claims.claim_collector import unknown_labels
from decomposerl.claims.column_guess import Guess, Role, Side
from decomposerl.claims.generic import native_file, parse_benchmark_toml, parse_source_toml
from decomposerl.claims.generic_rows import Columns, RowReader, native_text
from decomposerl.claims.load import LoadedClaims, LoadSettings, load_benchmark, load_source
from decomposerl.claims.records import excerpt
from decomposerl.claims.source import FORMAT_OF_ENDING, CorpusFiles, NativeFile
from decomposerl.errors import ConfigError
from decomposerl.printable import printable
from decomposerl.reports.giveaways import giveaways, giveaways_text
from resources.corpora.folder import FolderCorpora

_SHEETS = {".xlsx", ".xls", ".xlsm", ".ods"}
_MOST_PASSAGES = 8
_TOML = """\
# A first guess: check every line. docs/how-to/add-a-corpus.md explains all keys.

[source]
name = {name}
title = {title}  # as tables show it
license = "not stated"

[files]
train = {train}
dev = {dev}  # read for training, too
test = {test}  # a test set, never trained on
{constant}

[columns]
{columns}

[evidence]
kind = "{kind}"  # text or table
split = "{split}"  # none, lines, sentences or separator:<text>
# group_by = "COLUMN"  # where each row is one line of evidence of a claim

[labels]  # middle: neither, by label_rule; drop: not recognised, move each to its side
{labels}
"""


def lay_out(given: Path, name: str, folder: Path, records: str, aside: Path) -> list[NativeFile]:
    """Link the files with the rows of ``given`` below ``aside`` as the corpora ``folder`` has them.

    ``given`` is a file or a folder; ``records`` is the dotted key of the rows in a JSON object.

    Raises:
        ConfigError: a file cannot be read; says how to save it, or which option is needed.
    """
    endings = {*FORMAT_OF_ENDING, ".arrow"}
    inside = [path for path in sorted(given.rglob("*")) if _ending(path) in endings]
    if given.is_dir() and not inside:
        raise ConfigError(f"{given} has no file that ends in {', '.join(sorted(endings))}")
    saved = [path for path in inside if path.suffix == ".arrow"]  # beside JSON that is no rows
    files = []
    for path in saved or inside or [given]:
        location = _in_rows(path, records, aside / "rows").resolve()
        if location.is_relative_to(folder):
            below = location.relative_to(folder)
        else:
            place = path.relative_to(given) if inside else Path(path.name)
            below = name / place.with_name(location.name)
        files.append(native_file(below.as_posix(), guessing.guess_split(below.as_posix())))
        (aside / below).parent.mkdir(parents=True, exist_ok=True)
        (aside / below).symlink_to(location)
    return files


def _ending(path: Path) -> str:
    return Path(path.name.removesuffix(".gz")).suffix.lower()


def _in_rows(path: Path, records: str, aside: Path) -> Path:
    """The file itself, or what it holds as rows: of an Arrow stream, or one JSON object."""
    ending, target = _ending(path), aside / path.parent.name / path.with_suffix(".jsonl").name
    target.parent.mkdir(parents=True, exist_ok=True)
    if ending in _SHEETS:
        raise ConfigError(f"{path} is a spreadsheet: save it as 'CSV UTF-8' and name that file")
    if ending == ".arrow":  # of a folder that ``datasets`` saved
        from pyarrow import ipc, parquet

        target = target.with_suffix(".parquet")
        parquet.write_table(ipc.open_stream(path).read_all(), target)
        return target
    if ending != ".json":
        return path
    try:
        data = path.read_bytes()
        whole = json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)
    except (ValueError, OSError, EOFError, RecursionError):
        return path  # JSON lines, or damaged: its reader names the place
    if not isinstance(whole, dict):
        return path
    rows = Columns(whole).find(records) if records else _rows_in(whole)
    if not isinstance(rows, list):
        known = f"{path}: name the entry that holds the rows with --records; of"
        raise ConfigError(f"{known} {', '.join(map(excerpt, whole)) or 'none'}")
    target.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return target


def _rows_in(whole: Mapping[str, Any]) -> list[Any] | None:
    """The rows of an object: its one list of them, or those of columns, as pandas writes them."""
    values = list(whole.values())
    of_rows = [one for one in values if isinstance(one, list) and isinstance((*one, 0)[0], dict)]
    if all(isinstance(value, dict) and all(map(str.isdecimal, value)) for value in values):
        return [{name: whole[name].get(key) for name in whole} for key in (*values, {})[0]]
    return of_rows[0] if len(of_rows) == 1 else None


def guessed(
    name: str,
    files: Sequence[NativeFile],
    corpora: Path,
    columns: Mapping[Role, str],
    sides: Mapping[Side, Sequence[str]],
) -> str:
    """The text of a ``source.toml`` for files below ``corpora``, with comments on what to check.

    Empty ``columns`` and ``sides`` are guessed. Of several files without a column of labels each
    file's name is the label of its rows; ``=WORD`` as the label is that of all rows.

    Raises:
        ConfigError: no row can be read, or a column or a side must be named.
    """
    label = columns["label"]
    constant = {file.path: label[1:] for file in files} if label.startswith("=") else {}
    named = {role: name for role, name in columns.items() if name and name[0] != "="}
    rows = _rows(files, FolderCorpora(corpora))
    sample = [row.fields for row in rows[:: 1 + len(rows) // guessing.SAMPLE_ROWS]]
    try:
        guess = guessing.guess_columns(sample, named, labelled=not constant)
    except ConfigError:
        if label or len(files) == 1:
            raise
        guess = guessing.guess_columns(sample, named, labelled=False)
        constant = {file.path: PurePosixPath(file.path).stem for file in files}
    column, claims = guess.columns.get("label", "label"), dict[str, list[str]]()
    for row in rows:
        fields = Columns(row.fields)
        if word := constant.get(row.file) or native_text(fields.find(column)):
            claims.setdefault(word, []).append(str(fields.find(guess.columns["claim"])))
    by_rows = sorted(claims.items(), key=lambda label: -len(label[1]))
    counts, classes = {k: len(rows) for k, rows in by_rows}, _class_names(files, corpora, column)
    found = guessing.guess_sides(counts, sides, column, classes, claims)
    pairs = ", ".join(f"{_text(path)} = {_text(label)}" for path, label in constant.items())
    lines = []
    for side, words in found.items():
        shown = [f"{counts[word]:,} {classes.get(word, '')}".strip() for word in words]
        note = printable(f"  # rows: {', '.join(shown)}", keep="") if words else ""
        lines.append(f"{side} = {_text(words)}{note}")
    return _TOML.format(
        name=_text(name),
        title=_text(name.replace("_", " ").capitalize()),
        **{s: _text([f.path for f in files if f.split == s]) for s in ("train", "dev", "test")},
        constant=f"labels = {{{pairs}}}  # of all rows of a file" if constant else "",
        columns="\n".join(_column_lines(guess)),
        kind=guess.kind,
        split=guess.split,
        labels="\n".join(lines),
    )


def _rows(files: Sequence[NativeFile], folder: FolderCorpora) -> list[Record]:
    """The rows of all files; refuses files without any, and text that is not UTF-8."""
    read = [row for file in files for row in folder.records(file)]
    bad = [row for row in read if isinstance(row, Reject)]
    if odd := [r.file for r in bad if r.reason == "broken_encoding" or "not UTF-8" in r.detail]:
        shown, file = f"{odd[0]} is not UTF-8: save it as UTF-8", PurePosixPath(odd[0]).name
        raise ConfigError(f"{shown}, or iconv -f CP1252 -t UTF-8 '{file}' > 'utf8_{file}'")
    if len(bad) == len(read):
        why = f": {bad[0].reason}, {bad[0].detail}" if bad else ""
        raise ConfigError(f"{files[0].path} has no row that can be read{why}")
    return [row for row in read if isinstance(row, Record)]


def _class_names(files: Sequence[NativeFile], corpora: Path, column: str) -> Mapping[str, str]:
    """The names of numbered classes in the schema of a Parquet file, by number; may be empty."""
    from pyarrow import parquet

    tables = [corpora / file.path for file in files if (corpora / file.path).suffix == ".parquet"]
    metadata = parquet.read_schema(tables[0]).metadata if tables else None
    schema = json.loads((metadata or {}).get(b"huggingface", b"{}"))
    feature = schema.get("info", {}).get("features", {}).get(column, {})
    return {str(number): name for number, name in enumerate(feature.get("names") or ())}


def _column_lines(guess: Guess) -> Iterator[str]:
    shown = {
        name: excerpt(text if isinstance(text, str) else json.dumps(text, default=str))
        for name, text in guess.examples.items()
    }
    for role, column in guess.columns.items():
        other = f"or {guess.others[role]}? " if role in guess.others else ""
        yield f"{role} = {_text(column)}  # {printable(other + shown.pop(column), keep='')}"
    yield from (f"# not used: {printable(f'{k}  # {v}', keep='')}" for k, v in shown.items())


def _text(value: object) -> str:
    """A TOML basic string, or an array of them."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def preview_text(toml: str, where: str, files: CorpusFiles, most: int) -> str:
    """The first ``most`` claims of each use of a corpus, and the rows by what becomes of them.

    Raises:
        ConfigError: the TOML file is wrong; ``where`` names it.
    """
    source, benchmark = parse_source_toml(toml, where), parse_benchmark_toml(toml, where)
    read_all, parts = (None, files, LoadSettings(max_reject_share=1)), list[str]()
    if source.files:
        parts += _part(f"claims/{source.name}", load_source(source, *read_all), most)
    if benchmark is not None:
        parts += _part(f"benchmark/{benchmark.name}", load_benchmark(benchmark, *read_all), most)
    read = (source if benchmark is None or source.files else benchmark).read
    counts = read.left_out if isinstance(read, RowReader) else {}
    if said := ", ".join(f"{count:,} {key}" for key, count in counts.items()):
        parts.append(f"left out of the evidence: {printable(said, keep='')}\n")
    return "\n".join(parts)


def _part(key: str, loaded: LoadedClaims, most: int) -> Iterator[str]:
    names = f"rows from {', '.join(loaded.files) or 'no file that is there'}"
    yield f"{key}: {loaded.rows_read:,} {names}; status {loaded.status}"
    for number, row in enumerate(loaded.claims.head(most).iter_rows(named=True), start=1):
        label = row["label"] or "no label"
        yield f"\n{number}. {label} (native {row['native_label']!r}), id {row['native_id']!r}"
        yield f"   claim: {excerpt(row['claim'])}"
        passages = [f"   [{at}] {excerpt(text)}" for at, text in enumerate(row["passages"])]
        yield from passages[:_MOST_PASSAGES]
        if more := len(passages[_MOST_PASSAGES:]):
            yield f"   and {more} more"
    yield from ("", "   count  rows or claims that are", *_counts(loaded))
    unreadable = loaded.rejects.filter(reason="unreadable_file", row=0).height
    rejected = loaded.rejects.filter(pl.col("row") > 0).height
    share = 1.0 if unreadable else rejected / max(1, loaded.rows_read)
    if share > (limit := LoadSettings().max_reject_share):
        yield f"{share:.1%} of the rows are rejects; above {limit:.1%} the corpus is not read"
    yield ""


def _counts(loaded: LoadedClaims) -> Iterator[str]:
    by_label = loaded.claims["label"].fill_null("no label").value_counts(sort=True)
    for label, count in by_label.rows():
        yield f"{count:8,}  {label}"
    for reason, count in loaded.drops["reason"].value_counts(sort=True).rows():
        yield f"{count:8,}  dropped: {reason}"
    for (reason, field), rows in loaded.rejects.group_by("reason", "field", maintain_order=True):
        file, row, detail = rows.select("file", "row", "detail").row(0)
        yield f"{rows.height:8,}  rejected: {reason} {field}, first {file}:{row}: {detail}"
    if labels := unknown_labels(loaded.rejects):
        yield f"unknown labels: {labels}"
    if phrase := giveaways_text(giveaways([loaded.claims])):
        yield f"warning: {phrase}"
