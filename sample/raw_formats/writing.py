"""Shared ways of writing native files: JSON lines, delimited text, SQLite pages.

Takes rows, gives bytes.
"""

import csv
import hashlib
import io
import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from sample.planting import SampleClaim
from sample.prose import Page

Row = dict[str, object]


@dataclass(slots=True)
class Written:
    """Files (path below the corpora root to bytes) and the native id of each case."""

    files: dict[str, bytes] = field(default_factory=dict)
    ids: dict[str, str] = field(default_factory=dict)


def json_lines(rows: Iterable[Row], broken: Sequence[int] = ()) -> bytes:
    """One object per line; the lines at the positions ``broken`` are cut in the middle."""
    lines = [json.dumps(row, ensure_ascii=False) for row in rows]
    for index in broken:
        lines[index] = lines[index][: len(lines[index]) // 2]
    return "".join(f"{line}\n" for line in lines).encode()


def json_document(value: object) -> bytes:
    """One JSON document, indented like the published files."""
    return (json.dumps(value, ensure_ascii=False, indent=1) + "\n").encode()


def delimited(header: Sequence[str], rows: Iterable[Sequence[object]], delimiter: str) -> bytes:
    """Delimited text with a header line and quotes where needed."""
    out = io.StringIO()
    writer = csv.writer(out, delimiter=delimiter, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return out.getvalue().encode()


def database(table: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> bytes:
    """A SQLite file with one table of text columns, the first of which is the key."""
    connection = sqlite3.connect(":memory:")
    first, *rest = columns
    names = ", ".join([f"{first} PRIMARY KEY", *rest])
    connection.execute(f"CREATE TABLE {table} ({names})")
    marks = ", ".join("?" for _ in columns)
    connection.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)  # noqa: S608 - constants
    connection.commit()
    data = connection.serialize()
    connection.close()
    return data


def pages_of(cases: Iterable[SampleClaim]) -> dict[str, Page]:
    """Pages by title; cases that share a scene share its pages."""
    return {page.title: page for case in cases for page in case.pages}


def sentences(case: SampleClaim) -> list[str]:
    """All evidence sentences of a case in the order of its pages."""
    return [sentence for page in case.pages for sentence in page.sentences]


def number(case: SampleClaim, digits: int) -> int:
    """A number made from the case's hash."""
    whole = int(hashlib.sha256(case.uid.encode()).hexdigest(), 16)
    return whole % int("1" + "0" * digits)


def uuid(case: SampleClaim) -> str:
    """The case's hash in the shape of a UUID."""
    h = hashlib.sha256(case.uid.encode()).hexdigest()
    return f"{h[:8]}-{h[8:12]}-{h[12:16]}-{h[16:20]}-{h[20:32]}"


def label(case: SampleClaim, names: Mapping[str, str]) -> str:
    """The corpus's word for the label; nonsense where that is the row's fault."""
    return "UNKNOWN?" if case.fault == "unknown_label" else names[case.label]


def broken_lines(cases: Sequence[SampleClaim]) -> list[int]:
    """Positions of the claims whose line is cut."""
    return [index for index, case in enumerate(cases) if case.fault == "malformed_line"]


def without_missing(case: SampleClaim, row: Row, claim_field: str) -> Row:
    """The row, without its claim where a missing field is the fault."""
    if case.fault == "missing_field":
        return {name: value for name, value in row.items() if name != claim_field}
    return row
