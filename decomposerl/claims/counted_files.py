"""Row accounting: which rows of a claim file a reader consumed, and which of them it lost."""

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from decomposerl.claims.claim import Draft, Record, Reject
from decomposerl.claims.forms import Form
from decomposerl.claims.source import CorpusFiles, NativeFile, Pages
from decomposerl.printable import printable

_MOST_CHARS = 300


@dataclass(slots=True)
class CountedFiles:
    """Corpus files that record which rows of one claim file, ``path``, were handed out.

    A row is accounted for by an outcome with its number, by a ``None`` of ``read_each``, or
    by an outcome under the native id of its draft: some readers join several rows into one
    draft under their common id.
    """

    files: CorpusFiles
    path: str
    forms: Sequence[Form] = ()
    _columns: tuple[str, ...] = ()
    _known: bool = False
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
            if isinstance(record, Record) and not self._known:
                self._columns = self._columns or tuple(record.fields)
                self._known = any(form.columns <= record.fields.keys() for form in self.forms)
            yield record
        self._unfinished -= 1

    def made(self, record: Record, outcomes: Sequence[Draft | Reject]) -> None:
        """Note the native ids of the drafts of a record; they may be joined later."""
        if record.file == self.path:
            ids = tuple(one.native_id for one in outcomes if isinstance(one, Draft))
            self._ids_of_row[record.row] = ids

    def leave_out(self, record: Record) -> None:
        """Note that a record has no outcome of its own: another's, or it is not of the file."""
        if record.file == self.path:
            self._left_out.add(record.row)

    def unknown_form(self) -> str | None:
        """What is wrong where rows were read and none has the columns of a known form."""
        if self._known or not self._columns or not self.forms:
            return None
        columns = printable(", ".join(map(str, self._columns))[:_MOST_CHARS], keep="")
        known = "; ".join(map(str, self.forms))
        return f"no row has the columns of a known form; it has {columns}; known are {known}"

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
