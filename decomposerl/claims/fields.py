"""Typed access to the fields of one native row, and the loops that turn rows into drafts.

An adapter gets a ``NativeRow`` for each record and returns its draft. Every accessor takes a
dotted path such as ``table.rows``; a value that is absent, null or of the wrong type raises
``FieldError``, which the loop turns into a ``Reject`` with file, row, field and reason, so that
one bad row never costs its neighbours. A damaged page and any error that an adapter did not
foresee become rejects in the same way. ``CountedFiles`` finds the rows that an adapter lost.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

from decomposerl.claims.claim import Draft, Record, Reject
from decomposerl.claims.passages import table_passages
from decomposerl.claims.records import MAX_INTEGER_BITS, excerpt
from decomposerl.claims.source import (
    CorpusFiles,
    FieldError,
    Form,
    NativeFile,
    Pages,
    Reader,
)
from decomposerl.errors import ConservationError, DecomposeRLError, SourceFileError
from decomposerl.printable import printable

_MOST_CHARS = 300
Item = TypeVar("Item")


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

    def optional(self, path: str, read: Callable[[str], Item]) -> Item | None:
        """What another accessor gives for a path; None where it is absent or null."""
        return None if self.find(path) is None else read(path)

    def text(self, path: str) -> str:
        """The string at a path; it may be blank."""
        return _typed(path, self.value(path), str, "text")

    def identifier(self, path: str) -> str:
        """A non-blank id, which corpora write as text or as a whole number."""
        value = self.value(path)
        if not isinstance(value, str):
            return str(self.integer(path, "text or a whole number"))
        if not value.strip():
            raise FieldError(path, "missing_field", "blank id")
        return value

    def integer(self, path: str, wanted: str = "a whole number") -> int:
        """The whole number at a path; ``wanted`` says what else would do."""
        number = _typed(path, self.value(path), int, wanted)
        if number.bit_length() > MAX_INTEGER_BITS:
            raise FieldError(path, "field_too_large", f"a number of {number.bit_length()} bits")
        return number

    def boolean(self, path: str) -> bool:
        """The truth value at a path."""
        return _typed(path, self.value(path), bool, "true or false")

    def class_label(self, path: str, names: Sequence[str]) -> str:
        """A label as text; the hub's class number is replaced by its name, where it has one."""
        value = self.value(path)
        if isinstance(value, str):
            return value
        number = self.integer(path, "a label or its number")
        return names[number] if 0 <= number < len(names) else str(number)

    def items(self, path: str) -> Sequence[object]:
        """The list at a path."""
        return _typed(path, self.value(path), list, "a list")

    def strings(self, path: str) -> tuple[str, ...]:
        """The list of strings at a path."""
        return tuple(_typed(path, item, str, "a list of texts") for item in self.items(path))

    def mapping(self, path: str) -> "JsonObject":
        """The JSON object at a path."""
        return JsonObject(_typed(path, self.value(path), dict, "an object"))

    def objects(self, path: str) -> tuple["JsonObject", ...]:
        """The list of JSON objects at a path."""
        items = (_typed(path, item, dict, "a list of objects") for item in self.items(path))
        return tuple(map(JsonObject, items))


def _typed(path: str, value: object, kind: type[Item], wanted: str) -> Item:
    # A truth value is a kind of whole number to Python alone.
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        detail = f"expected {wanted}, found {type(value).__name__}"
        raise FieldError(path, "missing_field", detail)
    return value


@dataclass(slots=True)
class NativeRow(JsonObject):
    """One record of a file with typed access to its fields."""

    record: Record
    file: NativeFile

    def draft(self, passages: tuple[str, ...], **known: Any) -> Draft:  # noqa: ANN401
        """The row's draft, of which other fields are ``known``.

        Where they are not given, its fields ``id``, ``claim`` and ``label`` are read. The split,
        and the subset where none is given, are the file's.
        """
        if "native_id" not in known:
            known["native_id"] = self.identifier("id")
        for name, column in (("claim", "claim"), ("native_label", "label")):
            if name not in known:
                known[name] = self.text(column)
        if known.get("subset") is None:
            known["subset"] = self.file.subset
        place, split = self.record, self.file.split
        return Draft(file=place.file, row=place.row, split=split, passages=passages, **known)

    def table_draft(
        self, passages: Sequence[str], *, native_id: str, document: str, table: str
    ) -> Draft:
        """The draft of ``claim`` and ``label`` about one table; the arguments are field paths.

        ``passages`` are those of the caption, the header and the rows; ``table`` is the field that
        a reject names where none of them has text.
        """
        caption, header, rows = passages
        text, names = self.optional(caption, self.text), self.items(header)
        cells = [_typed(rows, row, list, "a list of lists") for row in self.items(rows)]
        return self.draft(
            non_blank(table_passages(text, names, cells), table),
            native_id=self.identifier(native_id),
            documents=(self.text(document),),
            evidence_kind="table",
        )


def non_blank(passages: Sequence[str], field: str) -> tuple[str, ...]:
    """The passages that hold text; an error where a file has the field and none does."""
    kept = tuple(passage for passage in passages if passage.strip())
    if not kept:
        raise FieldError(field, "empty_evidence", "the field holds no text")
    return kept


@dataclass(slots=True)
class CountedFiles:
    """Corpus files that note which rows of one claim file, ``path``, were handed out.

    A row is accounted for by an outcome with its number, or by ``leave_out``.
    """

    files: CorpusFiles
    path: str
    forms: Sequence[Form] = ()
    handed_out: set[int] = field(default_factory=set)
    _columns: tuple[str, ...] = ()
    _known: bool = False
    _unfinished: int = 0

    def exists(self, path: str) -> bool:
        """As ``CorpusFiles``."""
        return self.files.exists(path)

    def pages(self, path: str) -> Pages | None:
        """As ``CorpusFiles``."""
        return self.files.pages(path)

    def records(self, file: NativeFile) -> Iterator[Record | Reject]:
        """As ``CorpusFiles``; rows of ``path`` are counted."""
        counted = file.path == self.path
        self._unfinished += counted
        for record in self.files.records(file):
            if counted:
                self.handed_out.add(record.row)
            if counted and isinstance(record, Record) and not self._known:
                self._columns = self._columns or tuple(record.fields)
                self._known = any(form.columns <= record.fields.keys() for form in self.forms)
            yield record
        self._unfinished -= counted

    def check(self, corpus: str, rows: AbstractSet[int]) -> None:
        """Check what was read against the ``rows`` that a reader gave outcomes for.

        Raises:
            SourceFileError: rows were read and none has the columns of a known form.
            ConservationError: a row has no outcome, or the reader left the file unfinished.
        """
        if self._columns and self.forms and not self._known:
            columns = printable(", ".join(map(str, self._columns))[:_MOST_CHARS], keep="")
            known = (f"{form.name} ({', '.join(sorted(form.columns))})" for form in self.forms)
            raise SourceFileError(
                f"{corpus}: {self.path}: no row has the columns of a known form; it has "
                f"{columns}; known are {'; '.join(known)}"
            )
        why = "the reader stopped before the end of the file" * bool(self._unfinished)
        if lost := sorted(self.handed_out - rows):
            first = ", ".join(map(str, lost[:5]))
            why = f"{len(lost)} rows gave neither a claim nor a reject, first rows: {first}"
        if why:
            raise ConservationError(f"{corpus}: {self.path}: {why}")


def leave_out(files: CorpusFiles, rows: Iterable[Record | Draft]) -> None:
    """Note that rows have no outcome of their own: another's, or they are not of the file."""
    if isinstance(files, CountedFiles):
        files.handed_out -= {row.row for row in rows if row.file == files.path}


Drafts = Sequence[Draft | Reject]
Drafter = Callable[[NativeRow], Draft | Drafts | None]


def each_row(draft: Drafter) -> Reader:
    """The ``read`` function of a corpus whose rows are read one by one (see ``read_each``)."""
    return lambda files, file: read_each(files, file, draft)


def each_row_with(pages: str, draft: Callable[[Pages | None, NativeRow], Draft | None]) -> Reader:
    """``each_row`` of a corpus whose texts are in the page database at the path ``pages``."""
    return lambda files, file: read_each(files, file, partial(draft, files.pages(pages)))


def read_each(files: CorpusFiles, file: NativeFile, draft: Drafter) -> Iterator[Draft | Reject]:
    """What ``draft`` gives for each row, in file order; a ``FieldError`` of it is a reject.

    That is one draft, several drafts and rejects, or None for a row that does not belong to the
    file.
    """
    for record in files.records(file):
        if isinstance(record, Reject):
            yield record
            continue
        outcomes = _guarded(record, partial(draft, NativeRow(record.fields, record, file)))
        if outcomes is None:
            leave_out(files, (record,))
        yield from outcomes or ()


def read_joined(
    files: CorpusFiles,
    file: NativeFile,
    key: Callable[[NativeRow], str],
    join: Callable[[Sequence[NativeRow]], Draft | Drafts],
) -> Iterator[Draft | Reject]:
    """The drafts of each group of rows with one ``key``, in order of first appearance.

    ``join`` gets the rows of a group in file order; it may raise ``FieldError``. Rows that
    cannot be read or have no key are rejects and come first. The whole file is held. A group
    counts once, as a claim or as one reject at its first row: the share of rejects would else
    grow with the length of groups.
    """
    groups: dict[str, list[NativeRow]] = {}
    for record in files.records(file):
        if isinstance(record, Reject):
            yield record
            continue
        row = NativeRow(record.fields, record, file)
        try:
            groups.setdefault(key(row), []).append(row)
        except FieldError as fault:
            yield fault.reject(record)
    for rows in groups.values():
        leave_out(files, [row.record for row in rows[1:]])
        numbers = ", ".join(str(row.record.row) for row in rows)
        for outcome in _guarded(rows[0].record, partial(join, rows)) or ():
            if len(rows) > 1 and isinstance(outcome, Reject):
                yield replace(outcome, detail=f"{outcome.detail} (rows {numbers})")
            else:
                yield outcome


def _guarded(record: Record, make: Callable[[], Draft | Drafts | None]) -> Drafts | None:
    """What is made of a row; an error of that row becomes its reject."""
    try:
        made = make()
    except FieldError as fault:
        return (fault.reject(record),)
    except DecomposeRLError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever one row does, its neighbours are read
        detail = excerpt(f"{type(error).__name__}: {error}")
        return (FieldError("", "adapter_error", detail).reject(record),)
    return (made,) if isinstance(made, Draft) else made


def id_of_rows_with(columns: AbstractSet[str]) -> Callable[[NativeRow], str]:
    """The key of ``read_joined`` where rows with the columns share a claim's ``id``.

    Any other row is a claim by itself.
    """
    return lambda row: (
        row.identifier("id") if columns <= row.raw.keys() else f"row {row.record.row}"
    )


def each(rows: Sequence[NativeRow], of: Callable[[NativeRow], Item]) -> list[Item]:
    """``of`` every row; an error of one of them names that row.

    Raises:
        FieldError: as ``of``.
    """
    made = []
    for row in rows:
        try:
            made.append(of(row))
        except FieldError as fault:
            detail = f"row {row.record.row}: {fault.detail}"
            raise FieldError(fault.field, fault.reason, detail) from fault
    return made


def agreed(rows: Sequence[NativeRow], field: str, texts: Sequence[str]) -> None:
    """Refuse a group whose ``texts``, one a row, differ in more than letter case.

    Raises:
        FieldError: two rows differ, with reason ``conflicting_rows``.
    """
    plain = [" ".join(text.split()).casefold() for text in texts]
    other = next((place for place, text in enumerate(plain) if text != plain[0]), 0)
    if other:
        places = (f"row {rows[n].record.row}: {excerpt(texts[n])[:40]!r}" for n in (0, other))
        raise FieldError(field, "conflicting_rows", "; ".join(places))
