"""A user's own corpus from one TOML file: its files, columns and labels, and how rows are read.

``docs/how-to/add-a-corpus.md`` shows a full example. The caller checks whether the name is free.
Columns may be dotted paths into nested objects, also through lists; evidence may be text or any
nesting of lists and objects. Every value of it becomes part of a passage, except URLs and keys that
tell the label. With ``group_by`` each row is one line of evidence: the rows of a claim are joined.
"""

import ast
import json
import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import PurePosixPath
from typing import Annotated, Self

import pydantic
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from decomposerl.claims.claim import Draft, EvidenceKind, LabelMap, Reject
from decomposerl.claims.fields import JsonObject, NativeRow, agreed, each, read_each, read_joined
from decomposerl.claims.passages import CELL_BAR
from decomposerl.claims.records import MAX_INTEGER_BITS
from decomposerl.claims.source import (
    FORMAT_OF_ENDING,
    Benchmark,
    CorpusFiles,
    FieldError,
    NativeFile,
    Source,
)
from decomposerl.errors import ConfigError
from decomposerl.settings import mistakes

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])")
_URL = re.compile(r"\s*(?:https?://|www\.)\S+\s*", re.IGNORECASE)
_LABEL = re.compile(
    r"(?:^|_)(?:labels?|stances?|votes?|scores?|verdicts?|ratings?|veracity|entropy|probs?"
    r"|probability|confidence|logits?|ids?|types?)(?:_|$)"
)
_INT64_DIGITS = 19
Name = Annotated[str, Field(min_length=1)]
Names = Annotated[
    tuple[Name, ...],
    BeforeValidator(lambda v: (v,) if isinstance(v, str) else v),
    Field(strict=False),
]


class Section(BaseModel):
    """One table of the TOML file: frozen, unknown keys are errors, no silent conversions."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class ColumnMap(Section):
    """Table ``[columns]``: which native column holds what."""

    claim: Name
    evidence: Annotated[Names, Field(min_length=1)]
    label: Name | None = None
    id: Name | None = None
    document: Name | None = None
    subset: Name | None = None
    num_hops: Name | None = None


class EvidenceShape(Section):
    """Table ``[evidence]``: text or table, how a text is cut, and which rows are one claim."""

    kind: EvidenceKind = "text"
    split: Annotated[str, Field(pattern=r"(?s)^(none|lines|sentences|separator:.+)$")] = "none"
    group_by: Name | None = None


def snake(name: str) -> str:
    """A column's name in lower case, its words joined by underscores."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
    return re.sub(r"[\W_]+", "_", words).strip("_")


def is_label(key: str) -> bool:
    """Whether a key is of a label, stance, vote, score, id or type, which are no evidence."""
    return _LABEL.search(snake(key)) is not None


def is_url(value: object) -> bool:
    """Whether a value is the address of a page alone, which is no evidence."""
    return isinstance(value, str) and _URL.fullmatch(value) is not None


def native_text(value: object) -> str | None:
    """A scalar as the label and id columns compare it: ``true``, ``1``, ``text``; else None.

    ``1`` and ``1.0`` are the same, since Parquet and CSV writers turn one into the other.
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and value.bit_length() > MAX_INTEGER_BITS:
        return None  # Python refuses to print such a number
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value) if isinstance(value, str | int | float) else None


def listed(value: object) -> object:
    """The list that a cell's text spells, as in a CSV (``"['a', 'b']"``); else the value."""
    if not isinstance(value, str) or not (value.startswith("[") and value.endswith("]")):
        return value
    for read in (json.loads, ast.literal_eval):
        try:
            spelt = read(value)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            continue
        if isinstance(spelt, list) and all(isinstance(item, str | list | dict) for item in spelt):
            return spelt
    return value


Label = Annotated[
    str,
    BeforeValidator(lambda value: native_text(value) or value),
    AfterValidator(lambda text: text.strip().casefold()),
]
Labels = Annotated[frozenset[Label], Field(strict=False)]


class Columns(JsonObject):
    """A row whose columns may be dotted paths, also through lists: their values are one list."""

    __slots__ = ()

    def find(self, path: str) -> object:
        """The value of a column, else of the path that its dots are; None if absent."""
        return self.raw[path] if path in self.raw else _within(self.raw, path.split("."))

    def scalar(self, path: str) -> str:
        """A label or id as it is compared."""
        text = native_text(self.value(path))
        if text is None:
            raise FieldError(path, "missing_field", "is neither text nor a number")
        return text

    def label(self, path: str) -> str:
        """A label as it is compared; of a list of texts, such as votes, that of the majority."""
        votes = self.find(path)
        counts = Counter(v for v in votes if isinstance(v, str)) if isinstance(votes, list) else {}
        if not counts:
            return self.scalar(path)
        label = max(counts, key=lambda vote: counts[vote])
        if list(counts.values()).count(counts[label]) > 1:
            raise FieldError(path, "missing_field", "has no majority")
        return label

    def optional_scalar(self, path: str | None) -> str | None:
        """A column that the TOML file need not name and a row need not fill."""
        return self.scalar(path) or None if path and self.find(path) is not None else None


def _within(value: object, path: Sequence[str]) -> object:
    if not path:
        return value
    value = listed(value)
    if isinstance(value, list):
        entries = [inner for entry in value if (inner := _within(entry, path)) is not None]
        return [item for inner in entries for item in _items(inner)] or None
    return _within(value.get(path[0]), path[1:]) if isinstance(value, Mapping) else None


def _items(value: object) -> list[object]:
    return value if isinstance(value, list) else [value]


@dataclass(frozen=True, slots=True)
class RowReader:
    """The ``read`` function of a generic corpus.

    ``labels`` are those of files whose rows have none. ``left_out`` counts, by key, the values
    within the evidence that were no part of a passage.
    """

    columns: ColumnMap
    evidence: EvidenceShape
    labels: Mapping[str, str] = field(default_factory=dict)
    left_out: Counter[str] = field(default_factory=Counter, compare=False)

    def __call__(self, files: CorpusFiles, file: NativeFile) -> Iterator[Draft | Reject]:
        """Every row (every group of rows) of ``file`` as a draft or a reject."""
        column = self.evidence.group_by
        if column is None:
            return read_each(files, file, self._draft)
        return read_joined(files, file, lambda row: Columns(row.raw).scalar(column), self._joined)

    def _joined(self, rows: Sequence[NativeRow]) -> tuple[Draft]:
        """One claim: its rows agree on claim and label, its passages follow each other."""
        drafts = each(rows, self._draft)
        agreed(rows, self.columns.claim, [draft.claim for draft in drafts])
        agreed(rows, self.columns.label or "label", [draft.native_label or "" for draft in drafts])
        passages = tuple(dict.fromkeys(text for draft in drafts for text in draft.passages))
        documents = tuple(dict.fromkeys(name for draft in drafts for name in draft.documents))
        group = Columns(rows[0].raw).scalar(self.evidence.group_by or "")
        return (replace(drafts[0], native_id=group, passages=passages, documents=documents),)

    def _draft(self, row: NativeRow) -> Draft:
        columns, fields, file = self.columns, Columns(row.raw), row.record.file
        document, hops = map(fields.optional_scalar, (columns.document, columns.num_hops))
        if hops is not None and not (hops.strip().isdecimal() and len(hops) <= _INT64_DIGITS):
            detail = "is not a whole number of 64 bits"
            raise FieldError(columns.num_hops or "", "missing_field", detail)
        # Without an id column the row's position is the id, unique over all files.
        return row.draft(
            tuple(self._passages(fields)) or ("",),
            native_id=fields.scalar(columns.id) if columns.id else f"{file}:{row.record.row}",
            claim=fields.text(columns.claim),
            native_label=self.labels.get(file) or fields.label(columns.label or "label"),
            documents=(document,) if document else (),
            evidence_kind=self.evidence.kind,
            subset=fields.optional_scalar(columns.subset),
            num_hops=None if hops is None else int(hops),
        )

    def _passages(self, fields: Columns) -> Iterator[str]:
        for column in self.columns.evidence:
            value = listed(fields.value(column))
            items = [item for item in _items(value) if item is not None]
            if items and not any(isinstance(item, str | list | dict) for item in items):
                detail = "holds a value that is neither text, a list nor an object"
                raise FieldError(column, "missing_field", detail)
            for item in items:
                yield from self._texts(item, column)

    def _texts(self, value: object, key: str) -> Iterator[str]:
        """The passages of one entry of the evidence; values of an object or a row are its cells."""
        if isinstance(value, list) and self.evidence.kind == "text":
            yield from (text for item in value for text in self._texts(item, key))
            return
        pairs = value.items() if isinstance(value, dict) else ((key, v) for v in _items(value))
        cells: list[str] = []
        for at, inner in pairs:
            if isinstance(value, dict) and self.evidence.kind == "text" and is_label(at):
                self.left_out[at] += 1
            elif is_url(inner):
                self.left_out[f"{at} (a URL)"] += 1
            elif isinstance(cell := listed(inner), list | dict):
                yield from self._cut(cells)
                cells = []
                yield from self._texts(cell, at)
            else:
                cells.append(native_text(cell) or "")
        yield from self._cut(cells)

    def _cut(self, cells: Sequence[str]) -> list[str]:
        text, how = CELL_BAR.join(cells), self.evidence.split if cells else "lines"
        if how == "lines":
            return text.splitlines()
        if how == "sentences":
            return [part for part in _SENTENCE_END.split(text) if part]
        return [text] if how == "none" else text.split(how.removeprefix("separator:"))


def _file(value: str) -> str:
    path = value.removesuffix(".gz")
    pure = PurePosixPath(path)
    if pure.is_absolute() or ".." in pure.parts:
        raise ValueError("must be below the corpora folder")
    if pure.suffix not in FORMAT_OF_ENDING:
        raise ValueError(f"ends in none of {', '.join(FORMAT_OF_ENDING)}")
    return path


NativePath = Annotated[str, AfterValidator(_file)]
Paths = Annotated[tuple[NativePath, ...], Field(strict=False)]


def native_file(path: str, split: str) -> NativeFile:
    """The file at a path below the corpora folder, in the format of its ending."""
    path = path.removesuffix(".gz")
    return NativeFile(path, FORMAT_OF_ENDING[PurePosixPath(path).suffix], split)


class _About(Section):
    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]
    replaces: bool = False
    title: Annotated[str, Field(min_length=1)]
    domain: str = "user"
    license: str = "not stated"
    terms: str = "not stated"
    homepage: str = ""


class _FileLists(Section):
    train: Paths = ()
    dev: Paths = ()
    test: Paths = ()
    labels: dict[NativePath, str] = Field(default_factory=dict)


class _LabelSides(Section):
    supported: Labels
    refuted: Labels
    middle: Labels = frozenset()
    drop: Labels = frozenset()


class _Spec(Section):
    source: _About
    files: _FileLists
    columns: ColumnMap
    labels: _LabelSides
    evidence: EvidenceShape = EvidenceShape()

    @pydantic.model_validator(mode="after")
    def _consistent(self) -> Self:
        sides, files, columns = self.labels, self.files, self.columns
        trained = {*files.train, *files.dev}
        every = trained | {*files.test}
        problems = ["files: names no file"] * (not every)
        for one, other in combinations(_LabelSides.model_fields, 2):
            said = f"labels.{one} and labels.{other}: {{!r}} stands on more than one side"
            problems += map(said.format, sorted(getattr(sides, one) & getattr(sides, other)))
        problems += map("files: {} is trained on and tested on".format, trained & {*files.test})
        unknown = files.labels.keys() - every
        problems += map("files.labels: {} is none of the files".format, unknown)
        if columns.label is None and every - files.labels.keys():
            problems.append("columns.label: is missing, and files.labels lacks a file")
        if not sides.supported | sides.refuted:
            problems.append("labels.supported: is empty, as is labels.refuted")
        if columns.id is not None and self.evidence.group_by is not None:
            problems.append("columns.id: a claim of several rows has the value of group_by as id")
        if problems:
            raise ValueError("\n".join(problems))
        return self


_KEYS = [
    f"{table}.{key}".removesuffix(".")
    for table, section in _Spec.model_fields.items()
    for key in ("", *getattr(section.annotation, "model_fields", ()))
]


def parse_corpus_toml(text: str, where: str) -> tuple[Source, Benchmark | None]:
    """The training corpus that a TOML file describes, and the test set where it names test files.

    ``where`` names the TOML file in messages.

    Raises:
        ConfigError: the file is wrong; the message lists every mistake with its key.
    """
    try:
        spec = _Spec.model_validate(tomllib.loads(text))
    except ValidationError as error:
        lines = mistakes(error, _KEYS, "key of this file")
        raise ConfigError("\n".join(f"{where}: {line}" for line in lines)) from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{where}: not TOML: {error}") from error
    trained, tested = (
        tuple(native_file(path, split) for split in splits for path in getattr(spec.files, split))
        for splits in (("train", "dev"), ("test",))
    )
    source = Source(
        **spec.source.model_dump(),
        labels=LabelMap(**spec.labels.model_dump()),
        files=trained,
        read=RowReader(spec.columns, spec.evidence, spec.files.labels),
    )
    if not tested:
        return source, None
    return source, Benchmark.from_source(source, *tested, in_domain=bool(trained))
