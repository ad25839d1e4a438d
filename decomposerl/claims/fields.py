"""Typed access to the fields of one native row, and the loops that turn rows into drafts.

An adapter gets a ``NativeRow`` for each record and returns its draft. Every accessor takes a
dotted path such as ``table.rows``; a value that is absent, null or of the wrong type raises
``FieldError``, which the loop turns into a ``Reject`` with file, row, field and reason, so that
one bad row never costs its neighbours. A damaged page and any error that an adapter did not
foresee become rejects in the same way. ``CountedFiles`` finds the rows that an adapter lost.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import TypeVar

from decomposerl.claims.claim import Draft, EvidenceKind, Record, Reject, RejectReason
from decomposerl.claims.passages import table_passages
from decomposerl.claims.records import excerpt
from decomposerl.claims.source import CorpusFiles, DamagedPage, Form, NativeFile, Pages, Reader
from decomposerl.errors import DecomposeRLError
from decomposerl.printable import printable

MAX_INTEGER_BITS = 1_000
"""A longer number is no id, label or count, and Python refuses to print far longer ones."""
_MOST_CHARS = 300
Item = TypeVar("Item")


class FieldError(Exception):
    """A field of one row cannot be used; it never leaves the reading loop of this module."""

    def __init__(self, field: str, reason: RejectReason, detail: str) -> None:
        super().__init__(f"{field}: {reason}: {detail}")
        self.field, self.reason, self.detail = field, reason, detail

    def reject(self, record: Record) -> Reject:
        """The same fault as a row of the rejects table."""
        return Reject(record.file, record.row, self.field, self.reason, self.detail)


@dataclass(slots=True)  # not frozen: one is made for every row and every object in it
class JsonObject:
    """A JSON object with typed access: an accessor raises ``FieldError`` or gives a value."""

    raw: Mapping[str, object]

    def find(self, path: str) -> object:
        """The value at a dotted path; None where it is absent or null."""
        if "." not in path:  # most paths: skip the walk
            return self.raw.get(path)
        value: object = self.raw
        for name in path.split("."):
            value = value.get(name) if isinstance(value, Mapping) else None
        return value

    def value(self, path: str) -> object:
        """The non-null value at a path."""
        value = self.find(path)
        if value is None:
            raise FieldError(path, "missing_field", "absent or null")
        return value

    def text(self, path: str) -> str:
        """The string at a path; it may be blank."""
        value = self.value(path)
        if not isinstance(value, str):
            raise _wrong_type(path, "text", value)
        return value

    def optional_text(self, path: str) -> str | None:
        """The string at a path; None where it is absent or null."""
        return None if self.find(path) is None else self.text(path)

    def identifier(self, path: str) -> str:
        """A non-blank id, which corpora write as text or as a whole number."""
        value = self.value(path)
        if not isinstance(value, str):
            return str(self._integer(path, "text or a whole number"))
        if not value.strip():
            raise FieldError(path, "missing_field", "blank id")
        return value

    def integer(self, path: str) -> int:
        """The whole number at a path."""
        return self._integer(path, "a whole number")

    def optional_integer(self, path: str) -> int | None:
        """The whole number at a path; None where it is absent or null."""
        return None if self.find(path) is None else self.integer(path)

    def _integer(self, path: str, wanted: str) -> int:
        value = self.value(path)
        if isinstance(value, bool) or not isinstance(value, int):
            raise _wrong_type(path, wanted, value)
        if value.bit_length() > MAX_INTEGER_BITS:
            raise FieldError(path, "field_too_large", f"a number of {value.bit_length()} bits")
        return value

    def boolean(self, path: str) -> bool:
        """The truth value at a path."""
        value = self.value(path)
        if not isinstance(value, bool):
            raise _wrong_type(path, "true or false", value)
        return value

    def class_label(self, path: str, names: Sequence[str]) -> str:
        """A label as text; the hub's class number is replaced by its name, where it has one."""
        value = self.value(path)
        if isinstance(value, str):
            return value
        number = self._integer(path, "a label or its number")
        return names[number] if 0 <= number < len(names) else str(number)

    def items(self, path: str) -> Sequence[object]:
        """The list at a path."""
        value = self.value(path)
        if not isinstance(value, list | tuple):
            raise _wrong_type(path, "a list", value)
        return value

    def strings(self, path: str) -> tuple[str, ...]:
        """The list of strings at a path."""
        return self._items_of(path, (str,), "a list of texts")

    def optional_strings(self, path: str) -> tuple[str, ...]:
        """The list of strings at a path; empty where it is absent or null."""
        return () if self.find(path) is None else self.strings(path)

    def mapping(self, path: str) -> "JsonObject":
        """The JSON object at a path."""
        value = self.value(path)
        if not isinstance(value, Mapping):
            raise _wrong_type(path, "an object", value)
        return JsonObject(value)

    def objects(self, path: str) -> tuple["JsonObject", ...]:
        """The list of JSON objects at a path."""
        return tuple(map(JsonObject, self._items_of(path, (dict,), "a list of objects")))

    def rows(self, path: str) -> tuple[Sequence[object], ...]:
        """The list of lists at a path: the rows of a table."""
        return self._items_of(path, (list, tuple), "a list of lists")

    def _items_of(self, path: str, kinds: tuple[type[Item], ...], wanted: str) -> tuple[Item, ...]:
        checked: list[Item] = []
        for item in self.items(path):
            if not isinstance(item, kinds):
                raise _wrong_type(path, wanted, item)
            checked.append(item)
        return tuple(checked)


@dataclass(slots=True)
class NativeRow(JsonObject):
    """One record of a file with typed access to its fields."""

    record: Record
    file: NativeFile

    def draft(
        self,
        *,
        native_id: str,
        claim: str,
        passages: tuple[str, ...],
        native_label: str | None,
        documents: tuple[str, ...] = (),
        evidence_kind: EvidenceKind = "text",
        subset: str | None = None,
        num_hops: int | None = None,
    ) -> Draft:
        """The row's draft; split and (where none is given) subset are the file's."""
        return Draft(
            file=self.record.file,
            row=self.record.row,
            native_id=native_id,
            split=self.file.split,
            claim=claim,
            passages=passages,
            native_label=native_label,
            documents=documents,
            evidence_kind=evidence_kind,
            subset=self.file.subset if subset is None else subset,
            num_hops=num_hops,
        )

    def table_draft(
        self, *, native_id: str, document: str, table: str, caption: str, header: str, rows: str
    ) -> Draft:
        """The draft of ``claim`` and ``label`` about one table; the arguments are field paths.

        Passages are the caption, the header and the rows; ``table`` is the field that a reject
        names where none of them has text.
        """
        lines = table_passages(self.optional_text(caption), self.items(header), self.rows(rows))
        return self.draft(
            native_id=self.identifier(native_id),
            claim=self.text("claim"),
            passages=non_blank(lines, table),
            native_label=self.text("label"),
            documents=(self.text(document),),
            evidence_kind="table",
        )


@dataclass(slots=True)
class CountedFiles:
    """Corpus files that note which rows of one claim file, ``path``, were handed out.

    A row is accounted for by an outcome with its number, or by ``leave_out``.
    """

    files: CorpusFiles
    path: str
    forms: Sequence[Form] = ()
    _columns: tuple[str, ...] = ()
    _known: bool = False
    handed_out: set[int] = field(default_factory=set)
    _unfinished: int = 0

    def exists(self, path: str) -> bool:
        """As ``CorpusFiles``."""
        return self.files.exists(path)

    def pages(self, path: str) -> Pages | None:
        """As ``CorpusFiles``."""
        return self.files.pages(path)

    def records(self, file: NativeFile) -> Iterator[Record | Reject]:
        """As ``CorpusFiles``; rows of ``path`` are counted."""
        if file.path != self.path:
            yield from self.files.records(file)
            return
        self._unfinished += 1
        for record in self.files.records(file):
            self.handed_out.add(record.row)
            if isinstance(record, Record) and not self._known:
                self._columns = self._columns or tuple(record.fields)
                self._known = any(form.columns <= record.fields.keys() for form in self.forms)
            yield record
        self._unfinished -= 1

    def unknown_form(self) -> str | None:
        """What is wrong where rows were read and none has the columns of a known form."""
        if self._known or not self._columns or not self.forms:
            return None
        columns = printable(", ".join(map(str, self._columns))[:_MOST_CHARS], keep="")
        known = "; ".join(map(str, self.forms))
        return f"no row has the columns of a known form; it has {columns}; known are {known}"

    def lost(self, rows: AbstractSet[int]) -> str | None:
        """What is missing where a reader gave outcomes for ``rows``."""
        lost = sorted(self.handed_out - rows)
        if lost:
            first = ", ".join(map(str, lost[:5]))
            return f"{len(lost)} rows gave neither a claim nor a reject, first rows: {first}"
        return "the reader stopped before the end of the file" if self._unfinished else None


def leave_out(files: CorpusFiles, rows: Iterable[Record | Draft]) -> None:
    """Note that rows have no outcome of their own: another's, or they are not of the file."""
    if isinstance(files, CountedFiles):
        files.handed_out -= {row.row for row in rows if row.file == files.path}


def non_blank(passages: Sequence[str], field: str) -> tuple[str, ...]:
    """The passages that hold text; an error where a file has the field and none does."""
    kept = tuple(passage for passage in passages if passage.strip())
    if not kept:
        raise FieldError(field, "empty_evidence", "the field holds no text")
    return kept


def each_row(draft: Callable[[NativeRow], Draft | None]) -> Reader:
    """The ``read`` function of a corpus whose every row is one draft (see ``read_each``)."""
    return lambda files, file: read_each(files, file, draft)


def read_each(
    files: CorpusFiles, file: NativeFile, draft: Callable[[NativeRow], Draft | None]
) -> Iterator[Draft | Reject]:
    """One draft per row in file order; None leaves out a row that does not belong to the file."""

    def drafts(row: NativeRow) -> Sequence[Draft]:
        made = draft(row)
        if made is None:
            leave_out(files, (row.record,))
            return ()
        return (made,)

    return read_many(files, file, drafts)


def read_many(
    files: CorpusFiles,
    file: NativeFile,
    drafts: Callable[[NativeRow], Sequence[Draft | Reject]],
) -> Iterator[Draft | Reject]:
    """Any number of drafts and rejects per row, in file order; a ``FieldError`` is one reject."""
    for record in files.records(file):
        if isinstance(record, Reject):
            yield record
        else:
            yield from guarded(NativeRow(record.fields, record, file), drafts)


def guarded(
    row: NativeRow, drafts: Callable[[NativeRow], Sequence[Draft | Reject]]
) -> Sequence[Draft | Reject]:
    """What ``drafts`` gives for a row; an error of that row becomes its reject."""
    file, number = row.record.file, row.record.row
    try:
        return drafts(row)
    except FieldError as fault:
        return (fault.reject(row.record),)
    except DamagedPage as fault:
        return (Reject(file, number, "evidence", "damaged_page", str(fault)),)
    except DecomposeRLError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever one row does, its neighbours are read
        detail = excerpt(f"{type(error).__name__}: {error}")
        return (Reject(file, number, _unprintable(row.raw), "adapter_error", detail),)


def _unprintable(fields: Mapping[str, object]) -> str:
    """The first field nested too deeply, or a number too long, to be written; else empty."""
    for name, value in fields.items():
        try:
            repr(value)
        except (RecursionError, ValueError):
            return excerpt(name)
    return ""


def _wrong_type(path: str, wanted: str, value: object) -> FieldError:
    return FieldError(path, "missing_field", f"expected {wanted}, found {type(value).__name__}")
