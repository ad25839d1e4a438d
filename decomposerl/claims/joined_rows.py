"""Several rows of a file to one claim: evidence lines, or a form with one row an annotation."""

from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from itertools import chain

from decomposerl.claims.claim import Draft, Record, Reject
from decomposerl.claims.fields import CountedFiles, FieldError, Item, NativeRow, guarded, leave_out
from decomposerl.claims.records import excerpt
from decomposerl.claims.source import CorpusFiles, NativeFile

Join = Callable[[Sequence[NativeRow]], Sequence[Draft | Reject]]


def read_joined(
    files: CorpusFiles, file: NativeFile, key: Callable[[NativeRow], str], join: Join
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
    yield from chain.from_iterable(_outcomes(files, rows, join) for rows in groups.values())


def _outcomes(files: CorpusFiles, rows: Sequence[NativeRow], join: Join) -> list[Draft | Reject]:
    outcomes = list(guarded(rows[0], lambda _: join(rows)))
    leave_out(files, [row.record for row in rows[1:]])
    if len(rows) == 1:
        return outcomes
    numbers = ", ".join(str(row.record.row) for row in rows)
    return [
        replace(one, detail=f"{one.detail} (rows {numbers})") if isinstance(one, Reject) else one
        for one in outcomes
    ]


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
    for row, text in zip(rows, texts, strict=True):
        if _plain(text) != _plain(texts[0]):
            first, other = rows[0].record.row, row.record.row
            detail = f"row {first}: {excerpt(texts[0])[:40]!r}; row {other}: {excerpt(text)[:40]!r}"
            raise FieldError(field, "conflicting_rows", detail)


def has_columns(files: CorpusFiles, file: NativeFile, columns: AbstractSet[str]) -> bool:
    """Whether the first row of a file has these columns, which tell its layout."""
    inner = files.files if isinstance(files, CountedFiles) else files
    first = next((row for row in inner.records(file) if isinstance(row, Record)), None)
    return first is not None and columns <= first.fields.keys()


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold()
