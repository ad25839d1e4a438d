"""PubHealth-Tab: public-health claims checked against a web table.

Takes the native JSON lines, gives one draft a row with table evidence: the caption, the
horizontal header and one passage a row.

Left out deliberately: ``header_vertical`` (it repeats the first cells) and ``html_code``,
which is damaged in places.
"""

from collections.abc import Iterator
from functools import partial

from decomposerl.claims.claim import Draft, Record, Reject
from decomposerl.claims.fields import held, identifier, items, optional_text, read_each, rows, text
from decomposerl.claims.labels import LabelMap
from decomposerl.claims.passages import table_passages
from decomposerl.claims.source import CorpusFiles, NativeFile, Source


def read(files: CorpusFiles, file: NativeFile) -> Iterator[Draft | Reject]:
    """One draft a row, keyed by ``_id``; the document is the table's web address."""
    return read_each(files, file, partial(_draft, file))


def _draft(file: NativeFile, record: Record) -> Draft:
    row = record.fields
    caption = optional_text(row, "table.caption")
    lines = table_passages(caption, items(row, "table.header_horizontal"), rows(row, "table.rows"))
    return Draft(
        file=record.file,
        row=record.row,
        native_id=identifier(row, "_id"),
        split=file.split,
        claim=text(row, "claim"),
        passages=held(lines, "table"),
        native_label=text(row, "label"),
        documents=(text(row, "table.website"),),
        evidence_kind="table",
    )


PUBHEALTHTAB = Source(
    name="pubhealthtab",
    title="PubHealth-Tab",
    domain="Health (tab)",
    homepage="https://github.com/mubasharaak/PubHealthTab",
    license="CC BY-NC 4.0 (data); MIT (repository)",
    terms="Non-commercial use only.",
    labels=LabelMap.of(supported="SUPPORTS", refuted="REFUTES", middle="NOT ENOUGH INFO"),
    files=(
        NativeFile("pubhealthtab/pubhealthtab_trainset.jsonl", "jsonl", "train"),
        NativeFile("pubhealthtab/pubhealthtab_evalset.jsonl", "jsonl", "dev"),
    ),
    read=read,
    paper_raw=2_664,
)
