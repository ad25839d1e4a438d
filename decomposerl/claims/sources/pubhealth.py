"""PubHealth: public-health claims with the fact-check article behind them.

Takes the native TSV files and an excerpt with fewer columns, gives one draft a row;
passages are the sentences of ``main_text``. Labels stand in any letter case; an empty one
and the hub loader's ``-1`` are unknown labels.

Left out deliberately: ``explanation``, which gives the verdict away.
"""

import hashlib
from collections.abc import Iterator
from functools import partial

from decomposerl.claims.claim import Draft, Record, Reject
from decomposerl.claims.fields import held, identifier, read_each, text
from decomposerl.claims.labels import LabelMap
from decomposerl.claims.passages import sentences
from decomposerl.claims.source import CorpusFiles, NativeFile, Source

EXCERPT = NativeFile("pubhealth/tuning_excerpt.tsv", "tsv", "dev")


def read(files: CorpusFiles, file: NativeFile) -> Iterator[Draft | Reject]:
    """One draft a row.

    The document is a hash of the article: claims about one article belong together, and
    the excerpt carries no address.
    """
    return read_each(files, file, partial(_draft, file))


def _draft(file: NativeFile, record: Record) -> Draft:
    row = record.fields
    article = text(row, "main_text")
    digest = hashlib.sha256(article.strip().encode("utf-8", "surrogatepass")).hexdigest()
    return Draft(
        file=record.file,
        row=record.row,
        native_id=identifier(row, "claim_id"),
        split=file.split,
        claim=text(row, "claim"),
        passages=held(sentences(article), "main_text"),
        native_label=text(row, "label"),
        documents=(f"article:{digest[:16]}",),
    )


PUBHEALTH = Source(
    name="pubhealth",
    title="PubHealth",
    domain="Health",
    homepage="https://github.com/neemakot/Health-Fact-Checking",
    license="MIT (repository); articles belong to their fact-checkers",
    terms="Open.",
    labels=LabelMap.of(supported="true", refuted="false", middle="mixture, unproven"),
    files=(
        NativeFile("pubhealth/train.tsv", "tsv", "train"),
        NativeFile("pubhealth/dev.tsv", "tsv", "dev"),
        EXCERPT,
    ),
    read=read,
    paper_raw=9_096,
)
