"""``init corpus``: files as a corpus of your own, a first ``source.toml`` for them, a preview.

What the readers take stays as it is. Arrow streams, and rows within a JSON object or within other
rows, are rewritten.
"""

import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib import resources
from pathlib import Path, PurePosixPath
from typing import Any

from decomposerl.claims import column_guess as guessing
from decomposerl.claims.claim import Record, Reject
from decomposerl.claims.column_guess import Guess, Role, Side
from decomposerl.claims.generic import Columns, RowReader, native_file, parse_corpus_toml
from decomposerl.claims.load import LoadedClaims, LoadSettings, load_benchmark, load_source
from decomposerl.claims.records import excerpt
from decomposerl.claims.source import FORMAT_OF_ENDING, FieldError, NativeFile
from decomposerl.errors import ConfigError
from decomposerl.printable import printable
from decomposerl.reports.giveaways import giveaways, giveaways_text
from resources.corpora.folder import FolderCorpora, content_of

Files = Mapping[NativeFile, Path]
"""The files of a corpus, each with the path that a person named."""
_ENDINGS = {*FORMAT_OF_ENDING, ".arrow"}
_MOST_PASSAGES = 8


def lay_out(given: Path, name: str, folder: Path, records: str, place: Path) -> Files:
    """Put ``given``, a file or a folder, into ``place`` as the corpora ``folder`` will have it.

    ``records`` is the dotted key of the rows in JSON: in an object, or in each row, whose other
    fields the rows then have as well.

    Raises:
        ConfigError: a file cannot be read; says how to save it, or which option is needed.
    """
    paths = filter(Path.is_file, (given, *sorted(given.rglob("*"))))
    inside = [path for path in paths if _ending(path) in _ENDINGS]
    if not given.exists():
        raise ConfigError(f"--from: there is no {given}")
    if not inside:
        known = ", ".join(sorted(_ENDINGS))
        raise ConfigError(f"{given}: no {known}; save a spreadsheet as 'CSV UTF-8' and name that")
    saved = [path for path in inside if path.suffix == ".arrow"]  # beside JSON that is no rows
    files = dict[NativeFile, Path]()
    for path in saved or inside:
        rows, content = path.resolve(), _rewritten(path, records)
        below = Path(name, path.name if path == given else path.relative_to(given))
        if content:
            below = below.with_suffix(".parquet" if path in saved else ".jsonl")
        elif rows.is_relative_to(folder):
            below = rows.relative_to(folder)
        (place / below).parent.mkdir(parents=True, exist_ok=True)
        if content:
            (place / below).write_bytes(content)
        else:  # read as it is
            (place / below).symlink_to(rows)
        files[native_file(below.as_posix(), guessing.guess_split(below.as_posix()))] = path
    return files


def _ending(path: Path) -> str:
    return Path(path.name.removesuffix(".gz")).suffix.lower()


def _rewritten(path: Path, records: str) -> bytes:
    """The rows of an Arrow stream as Parquet, those within JSON as lines; empty: none are."""
    if path.suffix == ".arrow":  # of a folder that ``datasets`` saved
        from pyarrow import ipc, parquet

        parquet.write_table(ipc.open_stream(path).read_all(), table := io.BytesIO())
        return table.getvalue()
    if _ending(path) not in {".json", *({".jsonl", ".ndjson"} if records else ())}:
        return b""
    try:
        data = content_of(path)
        lines = [data] if _ending(path) == ".json" else filter(bytes.strip, data.splitlines())
        values = list(map(json.loads, lines))
    except (ValueError, OSError, RecursionError):
        return b""  # JSON lines, or damaged: its reader names the place
    whole = values[0] if _ending(path) == ".json" else values
    if not isinstance(whole, dict) and not records:
        return b""
    rows = _rows_at(whole, records.split(".") if records else [])
    if not rows or not all(isinstance(row, dict) for row in rows):
        entries = whole[0] if isinstance(whole, list) and whole else whole
        known = ", ".join(map(excerpt, entries)) if isinstance(entries, dict) else ""
        raise ConfigError(
            f"{path}: name the entry that holds the rows with --records; of {known or 'none'}"
        )
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def _rows_at(
    value: object, path: Sequence[str], outer: Mapping[str, object] | None = None
) -> list[object]:
    """The rows at a path; those within other rows have the fields of these, too."""
    if isinstance(value, list):
        return [row for entry in value for row in _rows_at(entry, path, outer or {})]
    if not isinstance(value, dict):
        return [] if value is None else [value]
    if not path:
        return _rows_in(value) if outer is None else [{**outer, **value}]
    if outer is not None:
        outer = {**outer, **{name: field for name, field in value.items() if name != path[0]}}
    return _rows_at(value.get(path[0]), path[1:], outer)


def _rows_in(whole: Mapping[str, Any]) -> list[Any]:
    """The rows of an object: its one list of them, those of columns, or its values by their ids."""
    values = list(whole.values())
    lists = [rows for rows in values if isinstance(rows, list) and isinstance((*rows, 0)[0], dict)]
    if len(lists) == 1:
        return lists[0]
    if not values or not all(isinstance(value, dict) for value in values):
        return []
    if all(map(str.isdecimal, (key for value in values for key in value))):  # as pandas writes
        return [{name: whole[name].get(key) for name in whole} for key in values[0]]
    alike = len(values) > 1 and set.intersection(*map(set, values))
    return [{**row, "_key": key} for key, row in whole.items()] if alike else []


def guessed(
    name: str,
    place: Path,
    files: Files,
    columns: Mapping[Role, str],
    sides: Mapping[Side, Sequence[str]],
) -> str:
    """The text of a ``source.toml`` for the files in ``place``, with comments on what to check.

    Empty ``columns`` and ``sides`` are guessed. Of several files without a column of labels each
    file's name is the label of its rows; ``=WORD`` as the label is that of all rows.

    Raises:
        UnclearPolarity: nothing says which label means Supported; it has the possible readings.
        ConfigError: no row can be read, or a column or a side must be named.
    """
    label = columns["label"]
    constant = {file.path: label[1:] for file in files} if label.startswith("=") else {}
    named = {role: column for role, column in columns.items() if column}
    named |= {"label": ""} if constant else {}
    rows = _rows(place, files)
    sample = [row.fields for row in rows[:: 1 + len(rows) // guessing.SAMPLE_ROWS]]
    guess = guessing.guess_columns(sample, named, labelled=len(files) == 1)
    if not constant and "label" not in guess.columns:
        constant = {file.path: PurePosixPath(file.path).stem for file in files}
    column = guess.columns.get("label", "label")
    claims = _claims_by_label(rows, constant, column, guess.columns["claim"])
    classes = _class_names(place, files, column)
    lines = []
    for side, words in guessing.guess_sides(claims, sides, column, classes).items():
        shown = [f"{len(claims[word]):,} {classes.get(word, '')}".strip() for word in words]
        note = printable(f"  # rows: {', '.join(shown)}", keep="") if words else ""
        lines.append(f"{side} = {_text(words)}{note}")
    pairs = ", ".join(f"{_text(path)} = {_text(label)}" for path, label in constant.items())
    template = resources.files("dagster_project").joinpath("source_template.toml")
    return template.read_text("utf-8").format(
        name=_text(name),
        title=_text(name.replace("_", " ").capitalize()),
        **{
            split: _text([file.path for file in files if file.split == split])
            for split in ("train", "dev", "test")
        },
        constant=f"labels = {{{pairs}}}  # of all rows of a file" if constant else "",
        columns="\n".join(_column_lines(guess)),
        kind=guess.kind,
        split=guess.split,
        labels="\n".join(lines),
    )


def _rows(place: Path, files: Files) -> list[Record]:
    """The rows of all files; refuses files without any, and text that is not UTF-8."""
    rows: list[Record] = []
    for file, path in files.items():
        read = list(FolderCorpora(place).records(file))
        good = [row for row in read if isinstance(row, Record)]
        bad = [row for row in read if isinstance(row, Reject)]
        if bad and file.format != "parquet" and (encoding := _encoding(path)):
            raise ConfigError(
                f"{path} is not UTF-8 but {encoding}: save it as UTF-8, or "
                f"iconv -f {encoding} -t UTF-8 '{path}' > 'utf8_{path.name}'"
            )
        if not good and len(files) == 1:
            why = f": {bad[0].reason}, {bad[0].detail}" if bad else ""
            raise ConfigError(f"{path} has no row that can be read{why}")
        rows += good
    return rows


def _encoding(path: Path) -> str:
    """The encoding of a text file as iconv names it; empty for UTF-8."""
    try:
        data = content_of(path)
    except OSError:
        return ""  # its reader says what is damaged
    if (known := json.detect_encoding(data)).startswith("utf-16"):
        return known.replace("6-", "6").upper()
    for encoding, name in (("utf-8", ""), ("cp1252", "CP1252")):
        with suppress(UnicodeDecodeError):
            data.decode(encoding)
            return name
    return "ANOTHER_ENCODING"


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


def _class_names(place: Path, files: Files, column: str) -> Mapping[str, str]:
    """The names of numbered classes in the schema of a Parquet file, by number; may be empty."""
    from pyarrow import parquet

    tables = [place / file.path for file in files if (place / file.path).suffix == ".parquet"]
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


def preview_text(toml: str, target: Path, place: Path, most: int) -> str:
    """The first ``most`` claims of each use of a corpus, and the rows by what becomes of them.

    Raises:
        ConfigError: the TOML file, which ``target`` names, is wrong.
    """
    source, benchmark = parse_corpus_toml(toml, str(target))
    read_all = (None, FolderCorpora(place), LoadSettings(max_reject_share=1))
    parts = list[str]()
    if source.files:
        parts += _part(f"claims/{source.name}", load_source(source, *read_all), most)
    if benchmark is not None:
        parts += _part(f"benchmark/{benchmark.name}", load_benchmark(benchmark, *read_all), most)
    counts = source.read.left_out if isinstance(source.read, RowReader) else {}
    if counts:
        said = ", ".join(f"{count:,} {key}" for key, count in counts.items())
        parts.append(f"left out of the evidence: {printable(said, keep='')}\n")
    return "\n".join(parts)


def _part(key: str, loaded: LoadedClaims, most: int) -> Iterator[str]:
    names = f"rows from {', '.join(loaded.files) or 'no file that is there'}"
    yield f"{key}: {loaded.rows_read:,} {names}; status {loaded.status}"
    for number, row in enumerate(loaded.claims.head(most).iter_rows(named=True), start=1):
        label, passages = row["label"] or "no label", row["passages"]
        yield f"\n{number}. {label} (native {row['native_label']!r}), id {row['native_id']!r}"
        yield f"   claim: {excerpt(row['claim'])} ({len(passages)} passages)"
        shown = enumerate(passages[:_MOST_PASSAGES])
        yield from (f"   [{place}] {excerpt(text)}" for place, text in shown)
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
