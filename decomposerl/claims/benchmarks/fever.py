"""FEVER as a benchmark: the paper's test split, and FeverSymmetric, which brings its text.

Takes two shapes. Native lines name pages and sentences of the June 2017 Wikipedia, whose
text comes from ``fever/fever.db``; the evidence is the union of all annotated sentences,
each led by its page title. FeverSymmetric lines carry claim and evidence sentence; each
claim stands with two evidences and opposite labels (``subset = fever_symmetric``).

Left out deliberately: a training source, because FEVER is none of the fourteen corpora,
and the hub form, which flattens evidence to one row an item.
"""

from collections.abc import Iterator
from functools import partial

from decomposerl.claims.claim import Draft, Record, Reject
from decomposerl.claims.fields import FieldError, Fields, held, identifier, items, read_each, text
from decomposerl.claims.labels import LabelMap
from decomposerl.claims.passages import page_title, without_treebank
from decomposerl.claims.source import Benchmark, CorpusFiles, NativeFile, Pages

PAGES = "fever/fever.db"
SYMMETRIC = "fever_symmetric"


def read(files: CorpusFiles, file: NativeFile) -> Iterator[Draft | Reject]:
    """One draft a line, keyed by the native ``id``."""
    if file.subset == SYMMETRIC:
        return read_each(files, file, partial(_symmetric_draft, file))
    return read_each(files, file, partial(_native_draft, file, files.pages(PAGES)))


def _symmetric_draft(file: NativeFile, record: Record) -> Draft:
    row = record.fields
    return Draft(
        file=record.file,
        row=record.row,
        native_id=f"{SYMMETRIC}-{identifier(row, 'id')}",
        split=file.split,
        claim=without_treebank(text(row, "sentence2")),
        passages=held((without_treebank(text(row, "sentence1")),), "sentence1"),
        native_label=text(row, "gold_label"),
        subset=file.subset,
    )


def _native_draft(file: NativeFile, pages: Pages | None, record: Record) -> Draft:
    row = record.fields
    sentences = _annotated(row)
    return Draft(
        file=record.file,
        row=record.row,
        native_id=identifier(row, "id"),
        split=file.split,
        claim=text(row, "claim"),
        passages=_passages(pages, sentences),
        native_label=text(row, "label"),
        documents=tuple(dict.fromkeys(page_title(page) for page, _ in sentences)),
    )


def _annotated(row: Fields) -> tuple[tuple[str, int], ...]:
    """Distinct (page, sentence number) of all evidence sets, in order of annotation.

    An item is ``[annotation id, evidence id, page, sentence]``; both are null where
    annotators found no evidence.
    """
    found: dict[tuple[str, int], None] = {}
    for one_set in items(row, "evidence"):
        for item in one_set if isinstance(one_set, list | tuple) else (None,):
            match item:
                case [_, _, str(page), int(sentence)]:
                    found[page, sentence] = None
                case [_, _, None, None]:
                    pass
                case _:
                    raise FieldError("evidence", "missing_field", f"not an item: {item!r}"[:80])
    return tuple(found)


def _passages(pages: Pages | None, annotated: tuple[tuple[str, int], ...]) -> tuple[str, ...]:
    """The annotated sentences: all found or none, as half the evidence may not suffice."""
    if pages is None:
        return ()
    found = [_sentence(pages, page, number) for page, number in annotated]
    return tuple(found) if all(found) else ()


def _sentence(pages: Pages, page: str, number: int) -> str:
    sentences = pages.sentences(page) or ()
    content = sentences[number].strip() if 0 <= number < len(sentences) else ""
    return f"{page_title(page)}: {without_treebank(content)}" if content else ""


FEVER = Benchmark(
    name="fever",
    title="FEVER",
    domain="Wiki",
    in_domain=True,
    homepage="https://fever.ai/dataset/fever.html",
    license="CC BY-SA 3.0 / Wikipedia terms; FeverSymmetric code MIT, data CC BY-SA 3.0",
    terms="Open.",
    labels=LabelMap.of(supported="SUPPORTS", refuted="REFUTES", middle="NOT ENOUGH INFO"),
    files=(
        NativeFile("fever/paper_test.jsonl", "jsonl", "test"),
        NativeFile("fever_symmetric/fever_symmetric_dev.jsonl", "jsonl", "dev", SYMMETRIC),
    ),
    read=read,
    claim_lists=(NativeFile("fever/paper_dev.jsonl", "jsonl", "dev"),),
    notes=(
        "Without fever.db, only FeverSymmetric has text; it is not the paper's FEVER test set.",
        "FeverSymmetric pairs each claim with two evidences of opposite labels.",
    ),
)
