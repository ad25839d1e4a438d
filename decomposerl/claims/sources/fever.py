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
    id_of_rows_with,
    non_blank,
    read_joined,
)
from decomposerl.claims.passages import page_title, page_titles, without_treebank
from decomposerl.claims.source import CorpusFiles, FieldError, NativeFile, Pages

PAGES = "fever/fever.db"
SYMMETRIC = "fever_symmetric"
_HUB_COLUMNS = frozenset({"evidence_wiki_url", "evidence_sentence_id"})
_CLAIM_ID = id_of_rows_with(_HUB_COLUMNS)


def read(files: CorpusFiles, file: NativeFile) -> Iterator[Draft | Reject]:
    """One draft per claim, keyed by the native ``id``."""
    return read_joined(files, file, _CLAIM_ID, partial(_draft, files.pages(PAGES)))


def _draft(pages: Pages | None, rows: Sequence[NativeRow]) -> Draft:
    row = rows[0]
    if row.file.subset == SYMMETRIC:
        return row.draft(
            non_blank((without_treebank(row.text("sentence1")),), "sentence1"),
            native_id=f"{SYMMETRIC}-{row.identifier('id')}",
            claim=without_treebank(row.text("sentence2")),
            native_label=row.text("gold_label"),
        )
    if row.raw.keys() >= _HUB_COLUMNS:  # its annotations become one native evidence set
        agreed(rows, "claim", each(rows, lambda row: row.text("claim")))
        agreed(rows, "label", each(rows, lambda row: row.text("label")))
        row = replace(row, raw={**row.raw, "evidence": [each(rows, _hub_item)]})
    sentences = _annotated(row)
    titles = page_titles(page for page, _ in sentences)
    return row.draft(_passages(pages, sentences), documents=titles)


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
