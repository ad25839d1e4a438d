"""FEVER as a benchmark: the paper's test split, and FeverSymmetric, which brings its text.

Native lines name pages and sentences of the June 2017 Wikipedia, whose text comes from
``fever/fever.db``; the evidence is the union of all annotated sentences, each led by its page
title. FeverSymmetric lines carry claim and evidence sentence; each claim comes with two evidences
and opposite labels (``subset = fever_symmetric``); the reading ``paper_test`` leaves it out. FEVER
is none of the fourteen training corpora.

The hub's form has one row an annotated sentence; its rows of one claim are joined. Its loader
writes -1 for "nothing" and for sentence 0 alike: -1 beside a page is read as sentence 0.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from decomposerl.claims.claim import Draft, Reject
from decomposerl.claims.fields import (
    NativeRow,
    agreed,
    each,
    has_columns,
    non_blank,
    read_each,
    read_joined,
)
from decomposerl.claims.passages import page_title, page_titles, without_treebank
from decomposerl.claims.source import CorpusFiles, FieldError, NativeFile, Pages

PAGES = "fever/fever.db"
SYMMETRIC = "fever_symmetric"
_HUB_COLUMNS = frozenset({"evidence_wiki_url", "evidence_sentence_id"})


def read(files: CorpusFiles, file: NativeFile) -> Iterator[Draft | Reject]:
    """One draft per claim, keyed by the native ``id``."""
    if file.subset == SYMMETRIC:
        return read_each(files, file, _symmetric_draft)
    pages = files.pages(PAGES)
    if has_columns(files, file, _HUB_COLUMNS):
        join = partial(_joined, pages)
        return read_joined(files, file, lambda row: row.identifier("id"), join)
    return read_each(files, file, partial(_native_draft, pages))


def _symmetric_draft(row: NativeRow) -> Draft:
    return row.draft(
        non_blank((without_treebank(row.text("sentence1")),), "sentence1"),
        native_id=f"{SYMMETRIC}-{row.identifier('id')}",
        claim=without_treebank(row.text("sentence2")),
        native_label=row.text("gold_label"),
    )


def _native_draft(pages: Pages | None, row: NativeRow) -> Draft:
    sentences = _annotated(row)
    titles = page_titles(page for page, _ in sentences)
    return row.draft(_passages(pages, sentences), documents=titles)


def _joined(pages: Pages | None, rows: Sequence[NativeRow]) -> Sequence[Draft]:
    """The draft of a claim of the hub's form: its annotations as one native evidence set."""
    agreed(rows, "claim", each(rows, lambda row: row.text("claim")))
    agreed(rows, "label", each(rows, lambda row: row.text("label")))
    whole = replace(rows[0], raw={**rows[0].raw, "evidence": [each(rows, _hub_item)]})
    return (_native_draft(pages, whole),)


def _hub_item(row: NativeRow) -> tuple[None, None, str | None, int | None]:
    page, sentence = row.text("evidence_wiki_url"), row.integer("evidence_sentence_id")
    return (None, None, page, max(sentence, 0)) if page.strip() else (None, None, None, None)


def _annotated(row: NativeRow) -> tuple[tuple[str, int], ...]:
    """Distinct (page, sentence number) of all evidence sets, in order of annotation.

    An item is ``[annotation id, evidence id, page, sentence]``; both are null where
    annotators found no evidence.
    """
    annotated: dict[tuple[str, int], None] = {}
    for one_set in row.items("evidence"):
        for item in one_set if isinstance(one_set, list | tuple) else (None,):
            match item:
                case [_, _, str(page), int(sentence)]:
                    annotated[page, sentence] = None
                case [_, _, None, None]:
                    pass
                case _:
                    raise FieldError("evidence", "missing_field", f"not an item: {item!r}"[:80])
    return tuple(annotated)


def _passages(pages: Pages | None, annotated: tuple[tuple[str, int], ...]) -> tuple[str, ...]:
    """The annotated sentences: all found or none, as half the evidence may not suffice."""
    passages = list[str]()
    if pages is None:
        return ()
    for page, number in annotated:
        sentences = pages.sentences(page) or ()
        content = sentences[number].strip() if 0 <= number < len(sentences) else ""
        if not content:
            return ()
        passages.append(f"{page_title(page)}: {without_treebank(content)}")
    return tuple(passages)


READERS = {"default": read}
