"""The file of reviewers' marks, ``marks.jsonl``: one JSON object a line, only ever appended to."""

import errno
import fcntl
import json
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from decomposerl.errors import EvaluationError
from decomposerl.evaluation.marks import Mark, mark_from
from decomposerl.traces.records import json_object

MARKS = "marks.jsonl"


@dataclass(frozen=True, slots=True)
class MarksFile:
    """A file of marks; several processes may append to it."""

    path: Path

    def append(self, mark: Mark) -> None:
        """Add a mark in one write, on disk before this returns.

        A line that a killed process left unfinished is ended first, so it spoils no other.

        Raises:
            OSError: the file cannot be written, or only in part; then it is as it was.
        """
        line = json.dumps(mark.as_json(), ensure_ascii=False, separators=(",", ":")) + "\n"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a+b", buffering=0) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            end = file.seek(0, os.SEEK_END)
            whole = not end or _last_byte(file.fileno()) == b"\n"
            data = (line if whole else f"\n{line}").encode()
            if file.write(data) != len(data):
                file.truncate(end)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))
            os.fsync(file.fileno())

    def marks(self) -> list[Mark]:
        """Every mark in order; lines that hold none are left out. Empty where there is no file."""
        marks = list[Mark]()
        for line in self.content().decode("utf-8-sig", "surrogateescape").split("\n"):
            values = json_object(line)
            with suppress(EvaluationError):
                marks += [] if isinstance(values, str) else [mark_from(values)]
        return marks

    def content(self) -> bytes:
        """The file as it is; empty where there is none."""
        return self.path.read_bytes() if self.path.is_file() else b""


def _last_byte(file: int) -> bytes:
    return os.pread(file, 1, os.fstat(file).st_size - 1)
