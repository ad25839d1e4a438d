"""How well the project's readers read the replies of a real model.

``python -m studies.replies FILE`` reads each reply of a JSONL file with the reader of its operation
and compares the reading with the expected one. It prints a table of operations, each miss, and as
its last line ``N replies: R as expected, U unread, W silently wrong``.
"""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, get_args

from decomposerl.printable import printable
from decomposerl.reports.tables import text_table
from studies.reply_operations import OPERATIONS, reading
from studies.reply_rows import REQUIRED, Problem, Row, RowError, read_rows
from studies.reply_shapes import Outcome, accepted, compared

_SHOWN = 100  # characters of a reply or a reading
_OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
_FORM = f"""\
Each line of FILE is a JSON object; {", ".join(REQUIRED)} are required:

  operation  what the reply answers, one of those below
  reply      the model's reply as it came, thinking included
  expected   the right reading, null where the reply holds none
  truncated  whether the token limit ended the reply (default: false)
  prompt     tells how many passages or predicates the reply numbers
  claim      the claim that the reply is about
  style, claim_key, got, outcome
             shown or passed on; got and outcome are those of an earlier reading

A reply of a baseline is read by the method itself, driven up to the call. A reading that differs
from the expected one is silently wrong; none where one is expected is unread, and so is a trace
whose faults alone differ. A reply to minicheck/user is the token with its alternatives:
Yes [["Yes", -0.05], ["No", -3.2]].

The operations with their readings:

"""


@dataclass(frozen=True, slots=True)
class ReadReply:
    """A row with its new reading and how that compares with the expected one."""

    row: Row
    got: Any
    outcome: Outcome

    @property
    def line(self) -> str:
        """One printable line."""
        parts = (
            f"line {self.row.line}",
            self.row.operation,
            f"[{self.row.style}]" if self.row.style else "",
            f"{self.outcome}: expected {_json(self.row.expected)}, got {_json(self.got)}",
            f"reply: {_shortened(self.row.reply)}",
        )
        return printable("  ".join(filter(None, parts)), keep="")

    @property
    def json_line(self) -> str:
        """The row as the file has it, with the new ``got`` and ``outcome``; pure ASCII."""
        return json.dumps({**self.row.values, "got": self.got, "outcome": self.outcome}) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Read, compare and print.

    Returns the exit code: 0 where every line was read, whatever the readings; 2 where the file or a
    line cannot be used, or the misses cannot be written.
    """
    options = _parser().parse_args(arguments)
    try:
        with options.file.open("rb") as lines:
            replies, problems = read_replies(lines)
    except OSError as error:
        _complain(f"{options.file}: {error.strerror}")
        return 2
    faults = [_described(options.file, problem) for problem in problems]
    if not replies and not faults:
        faults.append(f"{options.file}: no replies")
    misses = [reply for reply in replies if reply.outcome != "as expected"]
    if options.misses is not None:
        faults += _written(options.misses, misses, options.file)
    for fault in faults:
        _complain(fault)
    print(report(replies))
    return 2 if faults else 0


def read_replies(lines: Iterable[bytes]) -> tuple[list[ReadReply], list[Problem]]:
    """Each usable line's reading, and the problems of the others, both in the file's order."""
    rows, problems = read_rows(lines)
    replies = []
    for row in rows:
        try:
            replies.append(_read(row))
        except RowError as error:
            problems.append(Problem(row.line, error.field, str(error)))
    return replies, sorted(problems, key=lambda problem: problem.line)


def report(replies: Sequence[ReadReply]) -> str:
    """The table of operations, the misses, and the line with the sums."""
    counts = Counter((reply.row.operation, reply.outcome) for reply in replies)
    present = [name for name in OPERATIONS if any((name, one) in counts for one in _OUTCOMES)]
    table = [("operation", "replies", *_OUTCOMES)]
    for name in present:
        cells = [counts[name, outcome] for outcome in _OUTCOMES]
        table.append((name, *map(str, (sum(cells), *cells))))
    parts = [text_table(table, [False, True, True, True, True])] if present else []
    missed = "\n".join(reply.line for reply in replies if reply.outcome != "as expected")
    parts += [missed] if missed else []
    sums = Counter(reply.outcome for reply in replies)
    outcomes = ", ".join(f"{sums[outcome]} {outcome}" for outcome in _OUTCOMES)
    return "\n\n".join([*parts, f"{len(replies)} replies: {outcomes}"])


def _read(row: Row) -> ReadReply:
    operation = OPERATIONS.get(row.operation)
    if operation is None:
        near = get_close_matches(row.operation, OPERATIONS, n=3)
        hint = f"; near: {', '.join(near)}" if near else "; --help lists them"
        raise RowError("operation", f"unknown: {_json(row.operation)}{hint}")
    if not accepted(operation.shape, row.expected):
        form = operation.shape.form
        raise RowError("expected", f"must be {form}, or null, not {_json(row.expected)}")
    got = reading(row)
    return ReadReply(row, got, compared(operation.shape, row.expected, got))


def _written(path: Path, misses: Sequence[ReadReply], file: Path) -> list[str]:
    """Write the misses; what went wrong, if anything."""
    if path.exists() and path.samefile(file):
        return [f"{path}: the misses would replace the file of replies; name another"]
    try:
        path.write_text("".join(miss.json_line for miss in misses), "utf-8")
    except OSError as error:
        return [f"{path}: {error.strerror}"]
    return []


def _described(file: Path, problem: Problem) -> str:
    where = f", field {problem.field}" if problem.field else ""
    return f"{file}: line {problem.line}{where}: {problem.reason}"


def _complain(text: str) -> None:
    print(printable(text, keep=""), file=sys.stderr)


def _json(value: object) -> str:
    return _shortened(json.dumps(value, ensure_ascii=False))


def _shortened(text: str) -> str:
    line = " ".join(text[: 4 * _SHOWN].split())
    cut = len(line) > _SHOWN or len(text) > 4 * _SHOWN
    return f"{line[: _SHOWN - 1].rstrip()}…" if cut else line


def _parser() -> argparse.ArgumentParser:
    width = max(map(len, OPERATIONS))
    operations = (f"  {name:<{width}}  {one.shape.form}" for name, one in OPERATIONS.items())
    parser = argparse.ArgumentParser(
        prog="python -m studies.replies",
        description="Read a model's replies with the project's readers, and count the misreadings.",
        epilog=_FORM + "\n".join(operations),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("file", type=Path, metavar="FILE", help="JSONL file of replies")
    parser.add_argument(
        "--misses",
        type=Path,
        metavar="FILE",
        help="write the misses as JSONL, with the new reading",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
