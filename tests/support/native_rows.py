"""One sound native row of every corpus, invented, and short ways to read rows."""

import json
from collections.abc import Mapping, Sequence

from decomposerl.claims.catalogue import BENCHMARKS, SOURCES
from decomposerl.claims.claim import Draft, Reject
from decomposerl.claims.source import Benchmark, Source
from fakes import MemoryCorpora, MemoryPages
from project import SUPPORT

Row = Mapping[str, object]
Member = Source | Benchmark
SOURCE = {one.name: one for one in SOURCES}
BENCHMARK = {one.name: one for one in BENCHMARKS}
MEMBERS: tuple[Member, ...] = (*SOURCES, *BENCHMARKS)


def named(member: Member) -> str:
    """The member as the id of a test."""
    return f"{type(member).__name__}-{member.name}"


def read(
    name: str,
    rows: Sequence[Row | Reject],
    index: int = 0,
    beside: Mapping[str, Sequence[Row | Reject]] | None = None,
    databases: Mapping[str, MemoryPages] | None = None,
) -> list[Draft | Reject]:
    """What the reader of a source gives for ``rows`` in its ``index``-th file."""
    source = SOURCE[name]
    file = (*source.files, *source.extra)[index]
    return list(
        source.read(MemoryCorpora({**(beside or {}), file.path: rows}, databases or {}), file)
    )


def only(outcomes: Sequence[Draft | Reject]) -> Draft:
    """The one draft of an outcome without rejects."""
    (draft,) = outcomes
    assert isinstance(draft, Draft), draft
    return draft


def faults(outcomes: Sequence[Draft | Reject]) -> list[tuple[int, str, str]]:
    """Row, field and reason of the rejects."""
    return [(one.row, one.field, one.reason) for one in outcomes if isinstance(one, Reject)]


TABLE = json.loads((SUPPORT / "native_rows.json").read_text("utf-8"))
SOUND: dict[str, tuple[int, Row]] = {name: (index, row) for name, (index, row) in TABLE.items()}
OPTIONAL = set(
    "explanation contamination_identifier num_hops positive_evidence negative_evidence "
    "cited_doc_ids sentences justification full_article table_caption LONG_ANSWER".split()
)
REQUIRED = [
    (name, field) for name, (_, row) in SOUND.items() for field in row if field not in OPTIONAL
]
