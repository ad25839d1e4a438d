"""Ex-FEVER: multi-hop Wikipedia claims with an explanation and the pages behind them.

Takes the native CSV (``claim, explanation, label, golden entity, …``), gives one draft a
row. Evidence is the text of the golden pages, one passage a page, from the page database
``ex_fever/pages.db``; without it the drafts carry no passages.

Left out deliberately: ``explanation``, which states the verdict in words and would leak
the label as evidence.
"""

import ast
from collections.abc import Iterator
from functools import partial

from decomposerl.claims.claim import Draft, Record, Reject
from decomposerl.claims.fields import FieldError, Fields, read_each, text
from decomposerl.claims.labels import LabelMap
from decomposerl.claims.passages import page_title
from decomposerl.claims.source import CorpusFiles, NativeFile, Pages, Source

PAGES = "ex_fever/pages.db"
_MAX_PRINTED_CHARS = 10_000


def read(files: CorpusFiles, file: NativeFile) -> Iterator[Draft | Reject]:
    """One draft a row.

    The corpus has no id: the native id is the file's stem and the row number, so that the
    sample ``mini_test`` does not take the ids of ``test``.
    """
    return read_each(files, file, partial(_draft, file, files.pages(PAGES)))


def _draft(file: NativeFile, pages: Pages | None, record: Record) -> Draft:
    row = record.fields
    names = _golden(row)
    return Draft(
        file=record.file,
        row=record.row,
        native_id=f"{_stem(file.path)}-{record.row}",
        split=file.split,
        claim=text(row, "claim"),
        passages=_passages(pages, names),
        native_label=text(row, "label"),
        documents=tuple(dict.fromkeys(page_title(name) for name in names)),
    )


def _stem(path: str) -> str:
    return path.rsplit("/", 1)[-1].split(".", 1)[0]


def _golden(row: Fields) -> tuple[str, ...]:
    """The page names of ``golden entity``, a printed Python list of strings."""
    printed = text(row, "golden entity").strip()
    if len(printed) > _MAX_PRINTED_CHARS:
        detail = f"{len(printed)} characters, at most {_MAX_PRINTED_CHARS}"
        raise FieldError("golden entity", "field_too_large", detail)
    try:
        names = ast.literal_eval(printed)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError) as fault:
        raise FieldError("golden entity", "missing_field", "not a printed list") from fault
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise FieldError("golden entity", "missing_field", "not a list of page names")
    return tuple(names)


def _passages(pages: Pages | None, names: tuple[str, ...]) -> tuple[str, ...]:
    # A claim whose hop is missing may not follow from the other pages: all of them or none.
    if pages is None:
        return ()
    texts = [_page(pages, name) for name in dict.fromkeys(names)]
    return tuple(texts) if all(texts) else ()


def _page(pages: Pages, name: str) -> str:
    return " ".join(part.strip() for part in pages.sentences(name) or () if part.strip())


EX_FEVER = Source(
    name="ex_fever",
    title="Ex-FEVER",
    domain="Wiki",
    homepage="https://github.com/dependentsign/EX-FEVER",
    license="MIT (repository); Wikipedia text CC BY-SA",
    terms="Open. The page database is supplied by the user.",
    labels=LabelMap.of(supported="SUPPORT", refuted="REFUTE", middle="NOT ENOUGH INFO"),
    files=(
        NativeFile("ex_fever/train.csv", "csv", "train"),
        NativeFile("ex_fever/dev.csv", "csv", "dev"),
    ),
    read=read,
    paper_raw=36_841,
)
