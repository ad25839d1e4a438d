"""Typed access to the fields of one native row, and the loop that turns faults into rejects.

Takes records as ``CorpusFiles`` gives them. Every accessor takes a row (or a part of it)
and a dotted path such as ``table.rows``; what is absent, null or of the wrong type raises
``FieldError``, and ``read_each``/``read_many`` turn that into a ``Reject`` with file, row,
field and reason, so that one bad row never costs its neighbours. A damaged page and any
error that an adapter did not foresee become rejects in the same way. ``CountedFiles`` keeps
the book of the rows that a reader took, so that none vanishes on the way to a draft.

Left out deliberately: blank claims, unknown labels, sizes and duplicate ids, which
``load.py`` checks once for all corpora.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from decomposerl.claims.claim import Draft, Record, Reject, RejectReason
from decomposerl.claims.records import excerpt
from decomposerl.claims.source import CorpusFiles, DamagedPage, NativeFile, Pages
from decomposerl.errors import DecomposeRLError

Fields = Mapping[str, object]
MAX_INTEGER_BITS = 1_000
"""A longer number is no id, label or count, and Python refuses to print far longer ones."""


class FieldError(Exception):
    """A field of one row cannot be used; it never leaves the reading loop of this module."""

    def __init__(self, field: str, reason: RejectReason, detail: str) -> None:
        super().__init__(f"{field}: {reason}: {detail}")
        self.field, self.reason, self.detail = field, reason, detail

    def reject(self, record: Record) -> Reject:
        """The same fault as a row of the rejects table."""
        return Reject(record.file, record.row, self.field, self.reason, self.detail)


def value(fields: Fields, path: str) -> object:
    """The non-null value at a dotted path."""
    found = _find(fields, path)
    if found is None:
        raise FieldError(path, "missing_field", "absent or null")
    return found


def text(fields: Fields, path: str) -> str:
    """The string at a path; it may be blank."""
    found = value(fields, path)
    if not isinstance(found, str):
        raise _wrong(path, "text", found)
    return found


def optional_text(fields: Fields, path: str) -> str | None:
    """The string at a path; None where it is absent or null."""
    return None if _find(fields, path) is None else text(fields, path)


def identifier(fields: Fields, path: str) -> str:
    """A non-blank id, which corpora write as text or as a whole number."""
    found = value(fields, path)
    if isinstance(found, bool) or not isinstance(found, str | int):
        raise _wrong(path, "text or a whole number", found)
    if isinstance(found, int):
        _refuse_long(path, found)
    if not str(found).strip():
        raise FieldError(path, "missing_field", "blank id")
    return str(found)


def integer(fields: Fields, path: str) -> int:
    """The whole number at a path."""
    found = value(fields, path)
    if isinstance(found, bool) or not isinstance(found, int):
        raise _wrong(path, "a whole number", found)
    _refuse_long(path, found)
    return found


def optional_integer(fields: Fields, path: str) -> int | None:
    """The whole number at a path; None where it is absent or null."""
    return None if _find(fields, path) is None else integer(fields, path)


def boolean(fields: Fields, path: str) -> bool:
    """The truth value at a path."""
    found = value(fields, path)
    if not isinstance(found, bool):
        raise _wrong(path, "true or false", found)
    return found


def items(fields: Fields, path: str) -> Sequence[object]:
    """The list at a path."""
    found = value(fields, path)
    if not isinstance(found, list | tuple):
        raise _wrong(path, "a list", found)
    return found


def strings(fields: Fields, path: str) -> tuple[str, ...]:
    """The list of strings at a path."""
    found = []
    for item in items(fields, path):
        if not isinstance(item, str):
            raise _wrong(path, "a list of texts", item)
        found.append(item)
    return tuple(found)


def optional_strings(fields: Fields, path: str) -> tuple[str, ...]:
    """The list of strings at a path; empty where it is absent or null."""
    return () if _find(fields, path) is None else strings(fields, path)


def mapping(fields: Fields, path: str) -> Fields:
    """The JSON object at a path."""
    found = value(fields, path)
    if not isinstance(found, Mapping):
        raise _wrong(path, "an object", found)
    return found


def objects(fields: Fields, path: str) -> tuple[Fields, ...]:
    """The list of JSON objects at a path."""
    found = []
    for item in items(fields, path):
        if not isinstance(item, Mapping):
            raise _wrong(path, "a list of objects", item)
        found.append(item)
    return tuple(found)


def rows(fields: Fields, path: str) -> tuple[Sequence[object], ...]:
    """The list of lists at a path: the rows of a table."""
    found = []
    for item in items(fields, path):
        if not isinstance(item, list | tuple):
            raise _wrong(path, "a list of lists", item)
        found.append(item)
    return tuple(found)


def held(passages: Sequence[str], field: str) -> tuple[str, ...]:
    """The passages that hold text; an error where a file has the field and none does."""
    kept = tuple(passage for passage in passages if passage.strip())
    if not kept:
        raise FieldError(field, "empty_evidence", "the field holds no text")
    return kept


@dataclass(slots=True)
class CountedFiles:
    """Corpus files that remember the rows handed out of one claim file, ``path``.

    A row is accounted for by an outcome that bears its number, by a ``None`` of
    ``read_each``, or by an outcome under the native id of its draft: some readers join
    several rows into one draft under their common id.
    """

    files: CorpusFiles
    path: str
    _ids_of_row: dict[int, tuple[str, ...]] = field(default_factory=dict)
    _left_out: set[int] = field(default_factory=set)
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
            self._ids_of_row.setdefault(record.row, ())
            yield record
        self._unfinished -= 1

    def made(self, record: Record, outcomes: Sequence[Draft | Reject]) -> None:
        """Note the native ids of the drafts of a record; they may be joined later."""
        if record.file == self.path:
            ids = tuple(one.native_id for one in outcomes if isinstance(one, Draft))
            self._ids_of_row[record.row] = ids

    def leave_out(self, record: Record) -> None:
        """Note that a record is not the file's to give."""
        if record.file == self.path:
            self._left_out.add(record.row)

    def lost(self, rows: AbstractSet[int], native_ids: AbstractSet[str]) -> str | None:
        """What is missing where a reader gave outcomes for ``rows`` and ``native_ids``."""
        lost = sorted(
            row
            for row, ids in self._ids_of_row.items()
            if row not in rows
            and row not in self._left_out
            and not (ids and native_ids >= set(ids))
        )
        if lost:
            first = ", ".join(map(str, lost[:5]))
            return f"{len(lost)} rows gave neither a claim nor a reject, first rows: {first}"
        return "the reader stopped before the end of the file" if self._unfinished else None


def read_each(
    files: CorpusFiles, file: NativeFile, draft: Callable[[Record], Draft | None]
) -> Iterator[Draft | Reject]:
    """One draft a row in file order; None leaves out a row that is not this file's to give."""

    def one(record: Record) -> Sequence[Draft]:
        made = draft(record)
        if made is not None:
            return (made,)
        if isinstance(files, CountedFiles):
            files.leave_out(record)
        return ()

    return read_many(files, file, one)


def read_many(
    files: CorpusFiles,
    file: NativeFile,
    drafts: Callable[[Record], Sequence[Draft | Reject]],
) -> Iterator[Draft | Reject]:
    """Any number of drafts and rejects a row, in file order; a ``FieldError`` is one reject."""
    for record in files.records(file):
        if isinstance(record, Reject):
            yield record
            continue
        outcomes = _guarded(record, drafts)
        if isinstance(files, CountedFiles):
            files.made(record, outcomes)
        yield from outcomes


def _guarded(
    record: Record, drafts: Callable[[Record], Sequence[Draft | Reject]]
) -> Sequence[Draft | Reject]:
    try:
        return drafts(record)
    except FieldError as fault:
        return (fault.reject(record),)
    except DamagedPage as fault:
        return (Reject(record.file, record.row, "evidence", "damaged_page", str(fault)),)
    except DecomposeRLError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever one row does, its neighbours are read
        detail = excerpt(f"{type(error).__name__}: {error}")
        field = _unprintable(record.fields)
        return (Reject(record.file, record.row, field, "adapter_error", detail),)


def _unprintable(fields: Fields) -> str:
    """The first field that is nested too deeply, or a number too long, to be written; else none."""
    for name, found in fields.items():
        try:
            repr(found)
        except (RecursionError, ValueError):
            return excerpt(name)
    return ""


def _find(fields: Fields, path: str) -> object:
    found: object = fields
    for name in path.split("."):
        if not isinstance(found, Mapping):
            return None
        found = found.get(name)
    return found


def _refuse_long(path: str, found: int) -> None:
    if found.bit_length() > MAX_INTEGER_BITS:
        raise FieldError(path, "field_too_large", f"a number of {found.bit_length()} bits")


def _wrong(path: str, wanted: str, found: object) -> FieldError:
    return FieldError(path, "missing_field", f"expected {wanted}, found {type(found).__name__}")
