"""SciTab: claims about the result tables of computer-science papers.

Takes the native JSON array, gives one draft a row with table evidence: the caption, the
column names and one passage a row.

Left out deliberately: any clean-up of cell marks such as ``[BOLD]``; they say which
result a paper stresses.
"""

from collections.abc import Iterator
from functools import partial

from decomposerl.claims.claim import Draft, Record, Reject
from decomposerl.claims.fields import held, identifier, items, optional_text, read_each, rows, text
from decomposerl.claims.labels import LabelMap
from decomposerl.claims.passages import table_passages
from decomposerl.claims.source import CorpusFiles, NativeFile, Source


def read(files: CorpusFiles, file: NativeFile) -> Iterator[Draft | Reject]:
    """One draft a row, keyed by ``id``; the document is the paper."""
    return read_each(files, file, partial(_draft, file))


def _draft(file: NativeFile, record: Record) -> Draft:
    row = record.fields
    caption = optional_text(row, "table_caption")
    lines = table_passages(
        caption, items(row, "table_column_names"), rows(row, "table_content_values")
    )
    return Draft(
        file=record.file,
        row=record.row,
        native_id=identifier(row, "id"),
        split=file.split,
        claim=text(row, "claim"),
        passages=held(lines, "table_content_values"),
        native_label=text(row, "label"),
        documents=(text(row, "paper_id"),),
        evidence_kind="table",
    )


SCITAB = Source(
    name="scitab",
    title="SciTab",
    domain="Sci. (tab)",
    homepage="https://github.com/XinyuanLu00/SciTab",
    license="MIT",
    terms="Open.",
    labels=LabelMap.of(supported="supports", refuted="refutes", middle="not enough info"),
    # The corpus has no splits; the paper trains on both verdict classes of the whole file.
    files=(NativeFile("scitab/sci_tab.json", "json_array", "train"),),
    read=read,
    paper_raw=868,
)
