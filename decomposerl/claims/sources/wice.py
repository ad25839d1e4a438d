"""WiCE: Wikipedia sentences checked against the web pages that they cite.

Claims and the non-supported-token sub-claims have the same fields; ``subset`` tells the two
granularities apart. Passages are the sentences of the web page. ``supporting_sentences`` and
token spans are not used: they say where the answer is, which a verifier must find itself.
"""

from decomposerl.claims.claim import Draft, LabelMap
from decomposerl.claims.fields import NativeRow, each_row, non_blank
from decomposerl.claims.source import NOT_CHECKED, Form, NativeFile, Source, with_hub

CLAIM_DEV = with_hub(NativeFile("wice/claim/dev.jsonl", "jsonl", "dev", subset="claim"), "claim")


def _draft(row: NativeRow) -> Draft:
    native_id = row.identifier("meta.id")
    return row.draft(
        native_id=native_id,
        claim=row.text("claim"),
        passages=non_blank(row.strings("evidence"), "evidence"),
        native_label=row.text("label"),
        # The id before its sub-claim suffix: a claim and its sub-claims cite the same page.
        documents=(native_id.split("-", 1)[0],),
    )


SOURCE = Source(
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
        with_hub(NativeFile("wice/claim/train.jsonl", "jsonl", "train", subset="claim"), "claim"),
        CLAIM_DEV,
    ),
    extra=(
        NativeFile(
            "wice/non_supported_tokens/train.jsonl", "jsonl", "train", "non_supported_tokens"
        ),
        NativeFile("wice/non_supported_tokens/dev.jsonl", "jsonl", "dev", "non_supported_tokens"),
    ),
    forms=(
        Form.of(
            "native or hub",
            "claim, label, evidence, meta",
            "ryokamoi/wice@ddeb6c183665e2a20c5f03c5aa07f03888b9870f:README.md",
            NOT_CHECKED,
        ),
    ),
    read=each_row(_draft),
    paper_raw=785,
)
