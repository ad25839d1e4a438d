"""The ledger: what the project gives today, row by row, so that a smaller house gives the same.

``python -m tests.support.ledger --check [ROW ...]`` makes each row again and compares it with its
file in ``tests/ledger``; ``--fast`` takes the rows of ``make check`` alone. A commit that changes a
row on purpose runs ``--write ROW --reason "why"``, one row at a time, and names it in its message:
the file keeps every reason. Exit code 1 where a row differs.

The rows are in ``ledger_rows.py`` (fast) and ``ledger_runs.py`` (minutes).
"""

import argparse
import hashlib
import json
import logging
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import chdir
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal

import polars as pl

DATA = Path(__file__).resolve().parents[1] / "ledger"
SAMPLED = 12
_SHOWN = 20  # differences of a row
Entries = Mapping[str, Any]


class UnavailableError(Exception):
    """This machine cannot make the row; the text says what it lacks."""


@dataclass(frozen=True, slots=True)
class Row:
    """One row: ``make`` takes an empty folder and gives JSON values by name.

    ``tolerances`` gives for names (globs) of numbers that differ between processors the absolute
    difference that the code allows; every other value is compared for equality. Names in ``bound``
    (globs) are compared only where the entry ``processor`` is that of the file. ``better`` gives
    the direction (1 or -1) in which counts may change without being a difference.
    """

    name: str
    make: Callable[[Path], Entries]
    fast: bool = True
    tolerances: Mapping[str, float] = field(default_factory=dict)
    bound: tuple[str, ...] = ()
    better: Mapping[str, Literal[-1, 1]] = field(default_factory=dict)

    @property
    def file(self) -> Path:
        """Its values, and the reason of each change."""
        return DATA / f"{self.name}.json"

    def same(self, name: str, before: float, after: float) -> bool:
        """Whether a number is as near to the one in the file as it must be, or better."""
        allowed = [t for glob, t in self.tolerances.items() if fnmatchcase(name, glob)]
        signs = [sign for glob, sign in self.better.items() if fnmatchcase(name, glob)]
        change = after - before
        return abs(change) <= max(allowed, default=0) or any(sign * change > 0 for sign in signs)


def digest(value: object) -> str:
    """16 hex digits of a JSON value."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def table(frame: pl.DataFrame, *, without: tuple[str, ...] = ()) -> dict[str, Any]:
    """A table's row count, and for each column its type and a hash of its values.

    A column of floats has ``SAMPLED`` of its values and their mean instead, as the last bits of a
    float depend on the processor; give a tolerance for ``*.values.*`` and ``*.mean``. ``without``
    names the columns of the run (times, paths, counts of calls), as globs.
    """
    columns: dict[str, Any] = {}
    for series in frame:
        if any_matches(series.name, without):
            continue
        if series.dtype.is_float():
            spread = range(0, len(series), max(1, len(series) // SAMPLED))
            values = [series[row] for row in spread][:SAMPLED]
            content: object = {"values": values, "mean": series.mean(), "null": series.null_count()}
        else:
            content = hashlib.sha256(series.to_frame().write_ndjson().encode()).hexdigest()[:16]
        columns[series.name] = {"type": str(series.dtype), "content": content}
    return {"rows": frame.height, "columns": columns}


def leaves(value: object, name: str = "") -> Iterator[tuple[str, object]]:
    """Each single value of nested JSON, with its dotted name."""
    if isinstance(value, Mapping) and value:
        for key, inner in value.items():
            yield from leaves(inner, f"{name}.{key}".lstrip("."))
    elif isinstance(value, list | tuple) and value:
        for place, inner in enumerate(value):
            yield from leaves(inner, f"{name}.{place}")
    else:
        yield name, value


def any_matches(name: str, globs: Iterable[str]) -> bool:
    """Whether the name is one of the globs'."""
    return any(fnmatchcase(name, glob) for glob in globs)


def differences(row: Row, expected: Entries, actual: Entries) -> list[str]:
    """What differs beyond the row's tolerances, a line each."""
    elsewhere = expected.get("processor") != actual.get("processor")
    ignored = ("processor", *row.bound) if elsewhere else ()
    old, new = (
        {name: value for name, value in leaves(entries) if not any_matches(name, ignored)}
        for entries in (expected, actual)
    )
    lines = [f"- {name} is gone" for name in old if name not in new]
    lines += [f"+ {name} is new: {new[name]!r}" for name in new if name not in old]
    for name, before in old.items():
        after = new.get(name, before)
        numbers = isinstance(before, int | float) and isinstance(after, int | float)
        if before == after or (numbers and row.same(name, before, after)):
            continue
        lines.append(f"  {name}: {before!r} became {after!r}")
    return lines


def made(row: Row) -> Entries:
    """The row as it is now, as JSON reads it; made in a folder of its own."""
    with tempfile.TemporaryDirectory(prefix="ledger") as folder, chdir(folder):
        return json.loads(json.dumps(row.make(Path(folder)), ensure_ascii=False))


def checked(row: Row) -> list[str]:
    """The differences of a row from its file."""
    if not row.file.exists():
        return [f"{row.file} is not there; --write {row.name} makes it"]
    return differences(row, json.loads(row.file.read_text("utf-8"))["entries"], made(row))


def write(row: Row, reason: str) -> None:
    """Keep the row as it is now, with the reason; ``changes`` holds all of them, oldest first."""
    old = json.loads(row.file.read_text("utf-8")) if row.file.exists() else {"changes": []}
    entries = made(row)
    changes = [*old["changes"], {"reason": reason, "entries": digest(entries)}]
    text = json.dumps({"changes": changes, "entries": entries}, indent=1, ensure_ascii=False)
    DATA.mkdir(exist_ok=True)
    row.file.write_text(text + "\n", "utf-8")


def catalogue() -> Mapping[str, Row]:
    """Every row by its name, the fast ones first."""
    from ledger_rows import FAST
    from ledger_runs import SLOW
    from ledger_stores import STORED

    return {row.name: row for row in (*FAST, *STORED, *SLOW)}


def check(rows: list[Row]) -> int:
    """Compare and print; the number of rows that differ."""
    wrong = 0
    for row in rows:
        started = time.perf_counter()
        try:
            lines = checked(row)
        except UnavailableError as lack:
            print(f"{row.name}: skipped, {lack}", flush=True)
            continue
        except Exception as error:  # noqa: BLE001 - the other rows are compared all the same
            lines = ["it could not be made:", *traceback.format_exception_only(error)]
        seconds = time.perf_counter() - started
        print(f"{row.name}: {'differs' if lines else 'same'} ({seconds:.1f} s)", flush=True)
        for line in lines[:_SHOWN]:
            print(f"    {line}")
        if lines[_SHOWN:]:
            print(f"    and {len(lines) - _SHOWN} more")
        wrong += bool(lines)
    print(f"{len(rows)} rows, {wrong} differ")
    return wrong


def main() -> int:
    """The command; see the module's text."""
    parser = argparse.ArgumentParser(description=__doc__)
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--check", nargs="*", metavar="ROW", help="compare these rows, or all")
    action.add_argument("--write", metavar="ROW", help="keep a row as it is now")
    parser.add_argument("--fast", action="store_true", help="with --check: the fast rows alone")
    parser.add_argument("--reason", help="with --write: why the row changes")
    given = parser.parse_args()
    logging.disable(logging.WARNING)  # what rows provoke is no news
    rows = catalogue()
    wanted = [given.write] if given.write else given.check
    if unknown := [name for name in wanted if name not in rows]:
        parser.error(f"no row {', '.join(unknown)}; the rows are {', '.join(rows)}")
    if given.write:
        if not given.reason:
            parser.error("--write needs --reason: why does the row change?")
        write(rows[given.write], given.reason)
        return 0
    chosen = [rows[name] for name in wanted or rows]
    return int(check([row for row in chosen if row.fast or not given.fast]) > 0)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))  # the modules of this folder import by name
    import ledger

    sys.exit(ledger.main())
