"""Typed access to the fields of one native row, and the loop that turns faults into rejects.

Takes records as ``CorpusFiles`` gives them. Every accessor takes a row (or a part of it)
and a dotted path such as ``table.rows``; what is absent, null or of the wrong type raises
``FieldError``, and ``read_each``/``read_many`` turn that into a ``Reject`` with file, row,
field and reason, so that one bad row never costs its neighbours.

Left out deliberately: blank claims, unknown labels, sizes and duplicate ids, which
``load.py`` checks once for all corpora.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

from decomposerl.claims.claim import Draft, Record, Reject, RejectReason
from decomposerl.claims.source import CorpusFiles, NativeFile

Fields = Mapping[str, object]


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
    if not str(found).strip():
        raise FieldError(path, "missing_field", "blank id")
    return str(found)


def integer(fields: Fields, path: str) -> int:
    """The whole number at a path."""
    found = value(fields, path)
    if isinstance(found, bool) or not isinstance(found, int):
        raise _wrong(path, "a whole number", found)
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


def read_each(
    files: CorpusFiles, file: NativeFile, draft: Callable[[Record], Draft | None]
) -> Iterator[Draft | Reject]:
    """One draft a row in file order; None leaves out a row that is not this file's to give."""

    def one(record: Record) -> Sequence[Draft]:
        made = draft(record)
        return () if made is None else (made,)

    return read_many(files, file, one)


def read_many(
    files: CorpusFiles,
    file: NativeFile,
    drafts: Callable[[Record], Sequence[Draft | Reject]],
) -> Iterator[Draft | Reject]:
    """Any number of drafts and rejects a row, in file order; a ``FieldError`` is one reject."""
    for record in files.records(file):
        yield from (record,) if isinstance(record, Reject) else _guarded(record, drafts)


def _guarded(
    record: Record, drafts: Callable[[Record], Sequence[Draft | Reject]]
) -> Sequence[Draft | Reject]:
    try:
        return drafts(record)
    except FieldError as fault:
        return (fault.reject(record),)


def _find(fields: Fields, path: str) -> object:
    found: object = fields
    for name in path.split("."):
        if not isinstance(found, Mapping):
            return None
        found = found.get(name)
    return found


def _wrong(path: str, wanted: str, found: object) -> FieldError:
    return FieldError(path, "missing_field", f"expected {wanted}, found {type(found).__name__}")
