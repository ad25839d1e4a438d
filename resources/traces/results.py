"""Files of ``decomposerl verify --json`` as traces: lines are found once and read when needed."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from decomposerl.errors import SourceFileError
from decomposerl.reports.trace_page.items import TraceItem
from decomposerl.reports.trace_page.results import ClaimNames, result_line


@dataclass(slots=True)
class ResultFile:
    """One JSONL file of results; at most ``limit`` claims (0: all).

    Files that are shown together share ``names``, so that an id means one claim in all of them.
    """

    path: Path
    limit: int = 0
    names: ClaimNames = field(default_factory=ClaimNames)
    _lines: dict[str, list[tuple[int, int]]] = field(default_factory=dict, init=False)

    @property
    def paths(self) -> list[Path]:
        """The file."""
        return [self.path]

    def claim_ids(self) -> list[str]:
        """The claim of each result, in the order of the file.

        Raises:
            SourceFileError: a line is no result, or there is none; names file and line.
        """
        self._lines = {}
        every = []
        for number, start, text in self._texts():
            name = self._item(text, number).claim_id
            if not self.limit or name in self._lines or len(self._lines) < self.limit:
                self._lines.setdefault(name, []).append((number, start))
                every.append(name)
        if not every:
            raise SourceFileError(f"{self.path} holds no result of 'decomposerl verify --json'")
        return every

    def items(self, claim_ids: Sequence[str]) -> Iterator[TraceItem]:
        """The traces of these claims."""
        with self.path.open("rb") as file:
            for name in claim_ids:
                for number, start in self._lines.get(name, ()):
                    file.seek(start)
                    yield self._item(_text(file.readline()), number)

    def _item(self, text: str, number: int) -> TraceItem:
        return self.names.named(result_line(text, str(self.path), number))

    def _texts(self) -> Iterator[tuple[int, int, str]]:
        """Number, offset and text of each line that is not blank."""
        start = 0
        with self.path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    yield number, start, _text(line)
                start += len(line)


def _text(line: bytes) -> str:
    return line.decode("utf-8", "surrogateescape").removeprefix("\ufeff")
