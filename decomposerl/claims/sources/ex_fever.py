"""Ex-FEVER: multi-hop Wikipedia claims with an explanation and the pages behind them.

Evidence is the text of the golden pages, one passage a page, from the page database
``ex_fever/pages.db``; without it the drafts carry no passages. ``explanation`` is not used: it
states the verdict in words and would leak the label as evidence.
"""

import ast
from collections.abc import Iterator
from functools import partial

from decomposerl.claims.claim import Draft, Reject
from decomposerl.claims.fields import NativeRow, read_each
from decomposerl.claims.passages import page_passages, page_titles
from decomposerl.claims.source import CorpusFiles, FieldError, NativeFile, Pages

PAGES = "ex_fever/pages.db"
_MAX_PRINTED_CHARS = 10_000


def read(files: CorpusFiles, file: NativeFile) -> Iterator[Draft | Reject]:
    """One draft per row."""
    return read_each(files, file, partial(_draft, files.pages(PAGES)))


def _draft(pages: Pages | None, row: NativeRow) -> Draft:
    names = _golden(row)
    # The corpus has no id. The file's stem keeps mini_test from taking the ids of test.
    stem = row.file.path.rsplit("/", 1)[-1].split(".", 1)[0]
    return row.draft(
        page_passages(pages, dict.fromkeys(names)),
        native_id=f"{stem}-{row.record.row}",
        documents=page_titles(names),
    )


def _golden(row: NativeRow) -> tuple[str, ...]:
    """The page names of ``golden entity``, a printed Python list of strings."""
    field, printed = "golden entity", row.text("golden entity").strip()
    if len(printed) > _MAX_PRINTED_CHARS:
        detail = f"{len(printed)} characters, at most {_MAX_PRINTED_CHARS}"
        raise FieldError(field, "field_too_large", detail)
    try:
        names = ast.literal_eval(printed)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError) as fault:
        raise FieldError(field, "missing_field", "not a printed list") from fault
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise FieldError(field, "missing_field", "not a list of page names")
    return tuple(names)


READERS = {"default": read}
