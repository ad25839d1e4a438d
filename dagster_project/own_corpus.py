"""``init corpus``: a first ``source.toml`` for files of a corpus of one's own, and a preview."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import resources
from pathlib import Path, PurePosixPath

from decomposerl.claims import column_guess as guessing
from decomposerl.claims.claim import Record, Reject
from decomposerl.claims.column_guess import Guess, Role, Side
from decomposerl.claims.generic import (
    Columns,
    RowReader,
    parse_benchmark_toml,
    parse_source_toml,
)
from decomposerl.claims.load import LoadedClaims, LoadSettings, load_benchmark, load_source
from decomposerl.claims.records import excerpt
from decomposerl.claims.source import CorpusFiles, FieldError
from decomposerl.errors import ConfigError
from decomposerl.printable import printable
from decomposerl.reports.giveaways import giveaways, giveaways_text
from resources.corpora.layouts import GivenFiles, encoding_of

_MOST_PASSAGES = 8


def guessed(
    name: str,
    files: GivenFiles,
    columns: Mapping[Role, str],
    sides: Mapping[Side, Sequence[str]],
) -> str:
    """The text of a ``source.toml`` for these files, with comments on what to check.

    Empty ``columns`` and ``sides`` are guessed. Of several files without a column of labels each
    file's name is the label of its rows; ``=WORD`` as the label is that of all rows.

    Raises:
        UnclearPolarity: nothing says which label means Supported; it has the possible readings.
        ConfigError: no row can be read, or a column or a side must be named.
    """
    label = columns["label"]
    constant = {file.path: label[1:] for file in files.names} if label.startswith("=") else {}
    named = {role: name for role, name in columns.items() if name and name[0] != "="}
    rows = _rows(files)
    sample = [row.fields for row in rows[:: 1 + len(rows) // guessing.SAMPLE_ROWS]]
    try:
        guess = guessing.guess_columns(sample, named, labelled=not constant)
    except ConfigError:
        if label or len(files.names) == 1:
            raise
        guess = guessing.guess_columns(sample, named, labelled=False)
        constant = {file.path: PurePosixPath(file.path).stem for file in files.names}
    column = guess.columns.get("label", "label")
    claims = _claims_by_label(rows, constant, column, guess.columns["claim"])
    counts = {label: len(texts) for label, texts in claims.items()}
    classes = _class_names(files, column)
    found = guessing.guess_sides(counts, sides, column, classes, claims)
    pairs = ", ".join(f"{_text(path)} = {_text(label)}" for path, label in constant.items())
    lines = []
    for side, words in found.items():
        shown = [f"{counts[word]:,} {classes.get(word, '')}".strip() for word in words]
        note = printable(f"  # rows: {', '.join(shown)}", keep="") if words else ""
        lines.append(f"{side} = {_text(words)}{note}")
    template = resources.files("dagster_project").joinpath("source_template.toml")
    splits: dict[str, list[str]] = {"train": [], "dev": [], "test": []}
    for file in files.names:
        splits[file.split].append(file.path)
    return template.read_text("utf-8").format(
        name=_text(name),
        title=_text(name.replace("_", " ").capitalize()),
        **{split: _text(paths) for split, paths in splits.items()},
        constant=f"labels = {{{pairs}}}  # of all rows of a file" if constant else "",
        columns="\n".join(_column_lines(guess)),
        kind=guess.kind,
        split=guess.split,
        labels="\n".join(lines),
    )


def _rows(files: GivenFiles) -> list[Record]:
    """The rows of all files; refuses files without any, and text that is not UTF-8."""
    rows: list[Record] = []
    for file, path in files.names.items():
        read = list(files.records(file))
        good = [row for row in read if isinstance(row, Record)]
        bad = [row for row in read if isinstance(row, Reject)]
        if file.format != "parquet" and (encoding := encoding_of(path, broken=bool(bad))):
            raise ConfigError(
                f"{path} is not UTF-8 but {encoding}: save it as UTF-8, or "
                f"iconv -f {encoding} -t UTF-8 '{path}' > 'utf8_{path.name}'"
            )
        if not good and len(files.names) == 1:
            why = f": {bad[0].reason}, {bad[0].detail}" if bad else ""
            raise ConfigError(f"{path} has no row that can be read{why}")
        rows += good
    return rows


def _claims_by_label(
    rows: Iterable[Record], constant: Mapping[str, str], column: str, claim: str
) -> dict[str, list[str]]:
    """The claims of the rows by their label, the most frequent first; rows without one are out."""
    claims: dict[str, list[str]] = {}
    for row in rows:
        fields = Columns(row.fields)
        try:
            word = constant.get(row.file) or fields.label(column)
        except FieldError:
            continue
        claims.setdefault(word, []).append(str(fields.find(claim)))
    return dict(sorted(claims.items(), key=lambda label: -len(label[1])))


def _class_names(files: GivenFiles, column: str) -> Mapping[str, str]:
    """The names of numbered classes in the schema of a Parquet file, by number; may be empty."""
    from pyarrow import parquet

    tables = [rows for rows in files.places.values() if rows.suffix == ".parquet"]
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


def preview_text(toml: str, target: Path, files: CorpusFiles, most: int) -> str:
    """The first ``most`` claims of each use of a corpus, and the rows by what becomes of them.

    Raises:
        ConfigError: the TOML file, which ``target`` names, is wrong.
    """
    where = str(target)
    source, benchmark = parse_source_toml(toml, where), parse_benchmark_toml(toml, where)
    read_all = (None, files, LoadSettings(max_reject_share=1))
    parts = list[str]()
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
        label, passages = row["label"] or "no label", row["passages"]
        yield f"\n{number}. {label} (native {row['native_label']!r}), id {row['native_id']!r}"
        yield f"   claim: {excerpt(row['claim'])}"
        shown = enumerate(passages[:_MOST_PASSAGES])
        yield from (f"   [{place}] {excerpt(text)}" for place, text in shown)
        if more := len(passages[_MOST_PASSAGES:]):
            yield f"   and {more} more"
    yield "\n   count  rows or claims that are"
    rejects, limit = loaded.rejects, LoadSettings().max_reject_share
    counts = dict(loaded.claims["label"].fill_null("no label").value_counts(sort=True).rows())
    drops = loaded.drops["reason"].value_counts(sort=True).rows()
    counts |= {f"dropped: {reason}": count for reason, count in drops}
    for (reason, field), rows in rejects.group_by("reason", "field", maintain_order=True):
        file, row, detail = rows.select("file", "row", "detail").row(0)
        counts[f"rejected: {reason} {field}, first {file}:{row}: {detail}"] = rows.height
    yield from (f"{count:8,}  {what}" for what, count in counts.items())
    if labels := loaded.unknown_labels:
        yield f"unknown labels: {labels}"
    if phrase := giveaways_text(giveaways([loaded.claims])):
        yield f"warning: {phrase}"
    if (share := loaded.reject_share) > limit:
        yield f"{share:.1%} of the rows are rejects; above {limit:.1%} the corpus is not read"
    yield ""
