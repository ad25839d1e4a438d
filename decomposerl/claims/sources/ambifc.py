"""AmbiFC: claims from real questions, each annotated against several Wikipedia passages.

Takes the native ``certain`` JSON lines, one a (claim, passage), and gives one draft for
each (claim, page, label): the passages of a page that bear the same label are joined,
because one passage is rarely long enough to verify from and a claim is one claim however
many passages were annotated. Passages of a page whose labels differ stay apart by label,
so that no draft holds evidence for the other side.

Left out deliberately: the ``uncertain`` files, single annotations, and sentence labels.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from decomposerl.claims.claim import Draft, Record, Reject
from decomposerl.claims.fields import (
    FieldError,
    Fields,
    held,
    identifier,
    mapping,
    read_each,
    text,
)
from decomposerl.claims.labels import LabelMap
from decomposerl.claims.passages import sentences
from decomposerl.claims.source import CorpusFiles, NativeFile, Source

_MAX_LINE_BYTES = 200_000


def read(files: CorpusFiles, file: NativeFile) -> Iterator[Draft | Reject]:
    """One draft a (claim_id, wiki_page, label), in order of first appearance.

    ``row`` is the first line of the group; rejects come first. Passages are sentences.
    """
    groups: dict[str, list[Draft]] = {}
    for line in read_each(files, file, partial(_line, file)):
        if isinstance(line, Reject):
            yield line
            continue
        groups.setdefault(line.native_id, []).append(line)
    for first, *more in groups.values():
        joined = dict.fromkeys(text for line in (first, *more) for text in line.passages)
        yield replace(first, passages=tuple(joined)) if more else first


def _line(file: NativeFile, record: Record) -> Draft:
    row = record.fields
    page, label = text(row, "wiki_page"), text(row, "labels.passage")
    return Draft(
        file=record.file,
        row=record.row,
        native_id=f"{identifier(row, 'claim_id')}:{page}:{label.strip().casefold()}",
        split=file.split,
        claim=text(row, "claim"),
        passages=_joinable(held(_sentences(row), "wiki_passage")),
        native_label=label,
        documents=(page,),
    )


def _joinable(passages: tuple[str, ...]) -> tuple[str, ...]:
    """The passages of a line; those that would spoil the lines joined with it are refused."""
    try:
        size = sum(len(passage.encode("utf-8")) for passage in passages)
    except UnicodeEncodeError as fault:
        raise FieldError("wiki_passage", "broken_encoding", "lone surrogate") from fault
    if size > _MAX_LINE_BYTES:
        detail = f"{size} bytes, at most {_MAX_LINE_BYTES}"
        raise FieldError("wiki_passage", "evidence_too_large", detail)
    return passages


def _sentences(row: Fields) -> tuple[str, ...]:
    """The annotated sentences in order of their index; the split passage where there are none."""
    if not row.get("sentences"):
        return sentences(text(row, "wiki_passage"))
    numbered = mapping(row, "sentences")
    order = sorted(numbered, key=lambda index: (len(index), index))
    return tuple(text(numbered, index) for index in order)


AMBIFC = Source(
    name="ambifc",
    title="AmbiFC",
    domain="Wiki",
    homepage="https://github.com/CambridgeNLIP/verification-real-world-info-needs",
    license="not stated with the files; Wikipedia text CC BY-SA",
    terms="Downloaded from the authors' drive; see the homepage before redistribution.",
    labels=LabelMap.of(supported="supporting", refuted="refuting", middle="neutral"),
    files=(
        NativeFile("ambifc/train.certain.jsonl", "jsonl", "train"),
        NativeFile("ambifc/dev.certain.jsonl", "jsonl", "dev"),
    ),
    read=read,
    paper_raw=4_912,
)
