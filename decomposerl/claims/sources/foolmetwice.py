"""FoolMeTwice: claims that players wrote to fool each other, with Wikipedia sentences.

Takes the native JSON lines (``text`` is the claim), gives one draft a row; passages are
the retrieved sentences, which contain every gold one.

Left out deliberately: ``gold_evidence`` alone, one or two sentences, with which no row
could reach the funnel's least number of passages; and the game's votes.
"""

from collections.abc import Iterator
from functools import partial

from decomposerl.claims.claim import Draft, Record, Reject
from decomposerl.claims.fields import held, identifier, objects, read_each, text
from decomposerl.claims.labels import LabelMap
from decomposerl.claims.source import CorpusFiles, NativeFile, Source

DEV = NativeFile("foolmetwice/dev.jsonl", "jsonl", "dev")


def read(files: CorpusFiles, file: NativeFile) -> Iterator[Draft | Reject]:
    """One draft a row, keyed by the native ``id``; the document is the Wikipedia page."""
    return read_each(files, file, partial(_draft, file))


def _draft(file: NativeFile, record: Record) -> Draft:
    row = record.fields
    retrieved = [text(item, "text") for item in objects(row, "retrieved_evidence")]
    return Draft(
        file=record.file,
        row=record.row,
        native_id=identifier(row, "id"),
        split=file.split,
        claim=text(row, "text"),
        passages=held(retrieved, "retrieved_evidence"),
        native_label=text(row, "label"),
        documents=(text(row, "wikipedia_page"),),
    )


FOOLMETWICE = Source(
    name="foolmetwice",
    title="FoolMeTwice",
    domain="Wiki",
    homepage="https://github.com/google-research/fool-me-twice",
    license="Apache-2.0; Wikipedia text CC BY-SA",
    terms="Open.",
    labels=LabelMap.of(supported="SUPPORTS", refuted="REFUTES"),
    files=(
        NativeFile("foolmetwice/train.jsonl", "jsonl", "train"),
        DEV,
    ),
    read=read,
    paper_raw=11_588,
)
