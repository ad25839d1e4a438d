"""Hand-written fakes behind the ports; tests import them by name."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from decomposerl.claims.claim import Record, Reject
from decomposerl.claims.source import NativeFile


@dataclass(frozen=True)
class MemoryPages:
    """A page database in memory: sentences by title, elements by (title, element id)."""

    texts: Mapping[str, Sequence[str]] = field(default_factory=dict)
    parts: Mapping[tuple[str, str], str] = field(default_factory=dict)

    def sentences(self, title: str) -> tuple[str, ...] | None:
        """The page's sentences; None if there is no such page."""
        found = self.texts.get(title)
        return None if found is None else tuple(found)

    def element(self, title: str, element_id: str) -> str | None:
        """One element's text; None if there is no such element."""
        return self.parts.get((title, element_id))


@dataclass(frozen=True)
class MemoryCorpora:
    """A corpora folder in memory: rows by path, page databases by path.

    A row may be a ``Reject``, which then comes out in its place.
    """

    rows: Mapping[str, Sequence[Mapping[str, object] | Reject]]
    databases: Mapping[str, MemoryPages] = field(default_factory=dict)

    def exists(self, path: str) -> bool:
        """Whether the path has rows."""
        return path in self.rows

    def records(self, file: NativeFile) -> Iterator[Record | Reject]:
        """The rows of a path, numbered from 1; nothing where there is none."""
        for number, row in enumerate(self.rows.get(file.path, ()), start=1):
            yield row if isinstance(row, Reject) else Record(file.path, number, row)

    def pages(self, path: str) -> MemoryPages | None:
        """The page database of a path, or None."""
        return self.databases.get(path)
