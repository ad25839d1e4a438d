"""WiCE: Wikipedia sentences checked against the web pages that they cite.

Takes the native JSON lines of claims and of the non-supported-token sub-claims (same
fields), gives one draft a line; passages are the sentences of the web page.

Left out deliberately: ``supporting_sentences`` and token spans. They say where the answer
stands, which a verifier must find itself.
"""

from collections.abc import Iterator
from functools import partial

from decomposerl.claims.claim import Draft, Record, Reject
from decomposerl.claims.fields import held, identifier, read_each, strings, text
from decomposerl.claims.labels import LabelMap
from decomposerl.claims.source import CorpusFiles, NativeFile, Source

CLAIM_DEV = NativeFile("wice/claim/dev.jsonl", "jsonl", "dev", subset="claim")


def read(files: CorpusFiles, file: NativeFile) -> Iterator[Draft | Reject]:
    """One draft a line, keyed by ``meta.id``.

    The document is the id before its sub-claim suffix, because a claim and its sub-claims
    cite the same page. ``subset`` tells the two granularities apart.
    """
    return read_each(files, file, partial(_draft, file))


def _draft(file: NativeFile, record: Record) -> Draft:
    row = record.fields
    native_id = identifier(row, "meta.id")
    return Draft(
        file=record.file,
        row=record.row,
        native_id=native_id,
        split=file.split,
        claim=text(row, "claim"),
        passages=held(strings(row, "evidence"), "evidence"),
        native_label=text(row, "label"),
        documents=(native_id.split("-", 1)[0],),
        subset=file.subset,
    )


WICE = Source(
    name="wice",
    title="WiCE",
    domain="Wiki",
    homepage="https://github.com/ryokamoi/wice",
    license="ODC-BY (annotations); claims CC BY-SA (Wikipedia)",
    terms="Evidence text comes from Common Crawl, whose terms of use apply.",
    # "Partially supported" is WiCE's middle class; MiniCheck counts it as not supported,
    # which the rule middle_is_refuted gives.
    labels=LabelMap.of("supported", "not_supported", "partially_supported"),
    files=(
        NativeFile("wice/claim/train.jsonl", "jsonl", "train", subset="claim"),
        CLAIM_DEV,
    ),
    extra=(
        NativeFile(
            "wice/non_supported_tokens/train.jsonl", "jsonl", "train", "non_supported_tokens"
        ),
        NativeFile("wice/non_supported_tokens/dev.jsonl", "jsonl", "dev", "non_supported_tokens"),
    ),
    read=read,
    paper_raw=785,
)
