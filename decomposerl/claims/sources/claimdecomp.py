"""ClaimDecomp: political claims with the fact-checker's article.

Takes the JSON lines that the authors' script downloads, gives one draft a row. Evidence
is the justification and the full article where the download has them; rows without either
keep the claim alone.

Left out deliberately: the annotated sub-questions (supervision of another method), and
removing the sentences that state the rating in words; evaluation reports with and without
them.
"""

from collections.abc import Iterator
from functools import partial

from decomposerl.claims.claim import Draft, Record, Reject
from decomposerl.claims.fields import (
    identifier,
    optional_strings,
    optional_text,
    read_each,
    text,
)
from decomposerl.claims.labels import LabelMap
from decomposerl.claims.source import CorpusFiles, NativeFile, Source


def read(files: CorpusFiles, file: NativeFile) -> Iterator[Draft | Reject]:
    """One draft a row; the document is the article's address, else the example's id."""
    return read_each(files, file, partial(_draft, file))


def _draft(file: NativeFile, record: Record) -> Draft:
    row = record.fields
    # The justification is often a part of the article: a paragraph counts once.
    paragraphs = dict.fromkeys(
        optional_strings(row, "justification") + optional_strings(row, "full_article")
    )
    native_id = identifier(row, "example_id")
    return Draft(
        file=record.file,
        row=record.row,
        native_id=native_id,
        split=file.split,
        claim=text(row, "claim"),
        passages=tuple(paragraph for paragraph in paragraphs if paragraph.strip()),
        native_label=text(row, "label"),
        documents=(optional_text(row, "url") or native_id,),
    )


CLAIMDECOMP = Source(
    name="claimdecomp",
    title="ClaimDecomp",
    domain="Politics",
    homepage="https://github.com/jifan-chen/subquestions-for-fact-checking",
    license="not stated with the files; articles belong to the fact-checker",
    terms="Articles are scraped by the user; see the homepage before redistribution.",
    # Six grades, two sides: only "true" is fully supported (as MiniCheck reads it), the
    # three false grades are refuted, and what lies between is the middle class. The
    # paper's raw count of 569 also implies that grades were dropped.
    labels=LabelMap.of(
        supported="true", refuted="pants-fire, false, barely-true", middle="half-true, mostly-true"
    ),
    files=(
        NativeFile("claimdecomp/train.jsonl", "jsonl", "train"),
        NativeFile("claimdecomp/dev.jsonl", "jsonl", "dev"),
    ),
    read=read,
    paper_raw=569,
)
