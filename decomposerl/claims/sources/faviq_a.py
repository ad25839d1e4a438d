"""FaviQ, the A set: claims made from ambiguous questions, with retrieved passages.

Takes the native JSON lines, gives one draft a row. Evidence is the passages that the row
carries, the positive one first, then the negative one (retrieved, but without the answer),
so that a verifier meets both as it would after retrieval.

Left out deliberately: the Wikipedia dump behind the passages; a row without any passage
keeps its claim and no evidence.
"""

from collections.abc import Iterator, Mapping
from functools import partial

from decomposerl.claims.claim import Draft, Record, Reject
from decomposerl.claims.fields import (
    FieldError,
    Fields,
    identifier,
    mapping,
    objects,
    optional_text,
    read_each,
    text,
)
from decomposerl.claims.labels import LabelMap
from decomposerl.claims.source import CorpusFiles, NativeFile, Source

_EVIDENCE = ("positive_evidence", "negative_evidence")


def read(files: CorpusFiles, file: NativeFile) -> Iterator[Draft | Reject]:
    """One draft a row; documents are the titles of its passages."""
    return read_each(files, file, partial(_draft, file))


def _draft(file: NativeFile, record: Record) -> Draft:
    row = record.fields
    if not any(name in row for name in _EVIDENCE):
        raise FieldError(_EVIDENCE[0], "missing_field", "neither evidence field is there")
    found = [passage for name in _EVIDENCE for passage in _passages(row, name)]
    titles = (optional_text(passage, "title") for passage in found)
    return Draft(
        file=record.file,
        row=record.row,
        native_id=identifier(row, "id"),
        split=file.split,
        claim=text(row, "claim"),
        passages=tuple(text(passage, "text") for passage in found),
        native_label=text(row, "label"),
        documents=tuple(dict.fromkeys(title for title in titles if title)),
    )


def _passages(row: Fields, name: str) -> tuple[Fields, ...]:
    """One passage object or a list of them; none where the field is null or empty."""
    found = row.get(name)
    if not found:
        return ()
    return (mapping(row, name),) if isinstance(found, Mapping) else objects(row, name)


FAVIQ_A = Source(
    name="faviq_a",
    title="FaviQ-A",
    domain="Wiki",
    homepage="https://github.com/faviq/faviq",
    license="not stated with the files; Wikipedia text CC BY-SA",
    terms="Downloaded from the authors' server; see the homepage before redistribution.",
    labels=LabelMap.of(supported="SUPPORTS", refuted="REFUTES"),
    files=(
        NativeFile("faviq/train.jsonl", "jsonl", "train"),
        NativeFile("faviq/dev.jsonl", "jsonl", "dev"),
    ),
    read=read,
    paper_raw=10_924,
)
