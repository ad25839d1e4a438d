"""Rows of a user's own corpus to drafts, by the column map of its TOML file.

Columns may be dotted paths into nested objects; evidence may be text, a list of texts, or a list
of table rows. With ``group_by`` each row is one line of evidence: the rows of a claim are joined.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from decomposerl.claims.claim import Draft, EvidenceKind, Reject
from decomposerl.claims.fields import MAX_INTEGER_BITS, FieldError, JsonObject, NativeRow, read_each
from decomposerl.claims.joined_rows import agreed, each, read_joined
from decomposerl.claims.passages import CELL_BAR
from decomposerl.claims.source import CorpusFiles, NativeFile

Fields = Mapping[str, object]
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
_SEPARATOR = "separator:"
_INT64_DIGITS = 19
Name = Annotated[str, Field(min_length=1)]


def _columns(value: object) -> object:
    if isinstance(value, str):
        return (value,)
    return tuple(value) if isinstance(value, list) else value


def _split(value: str) -> str:
    named = value in {"none", "lines", "sentences"}
    if not named and not (value.startswith(_SEPARATOR) and len(value) > len(_SEPARATOR)):
        raise ValueError("must be none, lines, sentences or separator:<text>")
    return value


class Section(BaseModel):
    """One table of the TOML file: frozen, unknown keys are errors, no silent conversions."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class ColumnMap(Section):
    """Table ``[columns]``: which native column holds what."""

    claim: Name
    evidence: Annotated[tuple[Name, ...], BeforeValidator(_columns), Field(min_length=1)]
    label: Name
    id: Name | None = None
    document: Name | None = None
    subset: Name | None = None
    num_hops: Name | None = None


class EvidenceShape(Section):
    """Table ``[evidence]``: text or table, how a text is cut, and which rows are one claim."""

    kind: EvidenceKind = "text"
    split: Annotated[str, BeforeValidator(lambda v: _split(v) if isinstance(v, str) else v)] = (
        "none"
    )
    group_by: Name | None = None


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


def label_of(fields: Fields, column: str) -> str | None:
    """The label of a row as it is compared; None where it is absent, null or no scalar."""
    return native_text(_find(fields, column))


@dataclass(frozen=True, slots=True)
class RowReader:
    """The ``read`` function of a generic corpus."""

    columns: ColumnMap
    evidence: EvidenceShape

    def __call__(self, files: CorpusFiles, file: NativeFile) -> Iterator[Draft | Reject]:
        """Every row (every group of rows) of ``file`` as a draft or a reject."""
        column = self.evidence.group_by
        if column is None:
            return read_each(files, file, self._draft)
        return read_joined(files, file, lambda row: _scalar(row.raw, column), self._joined)

    def _joined(self, rows: Sequence[NativeRow]) -> tuple[Draft]:
        """One claim: its rows agree on claim and label, its passages follow each other."""
        drafts = each(rows, self._draft)
        agreed(rows, self.columns.claim, [one.claim for one in drafts])
        agreed(rows, self.columns.label, [one.native_label or "" for one in drafts])
        passages = dict.fromkeys(text for one in drafts for text in one.passages)
        documents = dict.fromkeys(name for one in drafts for name in one.documents)
        whole = replace(drafts[0], passages=tuple(passages), documents=tuple(documents))
        return (replace(whole, native_id=_scalar(rows[0].raw, self.evidence.group_by or "")),)

    def _draft(self, row: NativeRow) -> Draft:
        columns, fields = self.columns, row.raw
        claim = _value(fields, columns.claim)
        if not isinstance(claim, str):
            raise FieldError(columns.claim, "missing_field", "is not text")
        # Without an id column the row's position is the id, unique over all files.
        position = f"{row.record.file}:{row.record.row}"
        document = _optional(fields, columns.document)
        return row.draft(
            native_id=position if columns.id is None else _scalar(fields, columns.id),
            claim=claim,
            passages=tuple(self._passages(fields)) or ("",),
            native_label=_scalar(fields, columns.label),
            documents=(document,) if document else (),
            evidence_kind=self.evidence.kind,
            subset=_optional(fields, columns.subset),
            num_hops=_number(fields, columns.num_hops),
        )

    def _passages(self, fields: Fields) -> Iterator[str]:
        for column in self.columns.evidence:
            value = _value(fields, column)
            if isinstance(value, str):
                yield from self._cut(value)
            elif isinstance(value, list):
                for item in value:
                    yield from self._cut(_table_row(item, column))
            else:
                raise FieldError(column, "missing_field", "is neither text nor a list")

    def _cut(self, text: str) -> list[str]:
        how = self.evidence.split
        if how == "none":
            return [text]
        if how == "lines":
            return text.splitlines()
        if how == "sentences":
            return _SENTENCE_END.split(text)
        return text.split(how.removeprefix(_SEPARATOR))


def _table_row(item: object, column: str) -> str:
    """One entry of an evidence list: text, or a table row whose cells are joined."""
    if isinstance(item, str):
        return item
    cells = list(item.values()) if isinstance(item, dict) else item
    if not isinstance(cells, list):
        raise FieldError(
            column, "missing_field", "holds an entry that is neither text nor a row of cells"
        )
    return CELL_BAR.join(native_text(cell) or "" for cell in cells)


def _find(fields: Fields, column: str) -> object:
    """The value of a column, else of the nested object that its dots lead to; None if absent."""
    return fields[column] if column in fields else JsonObject(fields).find(column)


def _value(fields: Fields, column: str) -> object:
    value = _find(fields, column)
    if value is None:
        raise FieldError(column, "missing_field", "is absent or null")
    return value


def _scalar(fields: Fields, column: str) -> str:
    text = native_text(_value(fields, column))
    if text is None:
        raise FieldError(column, "missing_field", "is neither text nor a number")
    return text


def _optional(fields: Fields, column: str | None) -> str | None:
    """A column that the TOML file need not name and a row need not fill."""
    if column is None or _find(fields, column) is None:
        return None
    return _scalar(fields, column) or None


def _number(fields: Fields, column: str | None) -> int | None:
    text = _optional(fields, column)
    if text is None or column is None:
        return None
    if not text.strip().isdecimal() or len(text) > _INT64_DIGITS:
        raise FieldError(column, "missing_field", "is not a whole number of 64 bits")
    return int(text)
