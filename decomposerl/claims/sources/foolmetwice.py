"""FoolMeTwice: claims that players wrote to fool each other, with Wikipedia sentences.

Passages are the retrieved sentences, which contain every gold one: with ``gold_evidence`` alone,
one or two sentences, no row could reach the funnel's least number of passages.
"""

from decomposerl.claims.claim import Draft, LabelMap
from decomposerl.claims.fields import NativeRow, each_row, non_blank
from decomposerl.claims.source import NOT_CHECKED, Form, NativeFile, Source, with_hub

DEV = with_hub(NativeFile("foolmetwice/dev.jsonl", "jsonl", "dev"))


def _draft(row: NativeRow) -> Draft:
    retrieved = [sentence.text("text") for sentence in row.objects("retrieved_evidence")]
    return row.draft(
        native_id=row.identifier("id"),
        claim=row.text("text"),
        passages=non_blank(retrieved, "retrieved_evidence"),
        native_label=row.text("label"),
        documents=(row.text("wikipedia_page"),),
    )


SOURCE = Source(
    name="foolmetwice",
    title="FoolMeTwice",
    domain="Wiki",
    homepage="https://github.com/google-research/fool-me-twice",
    license="Apache-2.0; Wikipedia text CC BY-SA",
    terms="Open.",
    labels=LabelMap.of(supported="SUPPORTS", refuted="REFUTES"),
    files=(
        with_hub(NativeFile("foolmetwice/train.jsonl", "jsonl", "train")),
        DEV,
    ),
    forms=(
        Form.of(
            "native or hub",
            "id, text, label, retrieved_evidence, wikipedia_page",
            "google-research/fool-me-twice@d9db753e5acf91c0d9bf543db327ab655661eb94:"
            "dataset/dev.jsonl",
            NOT_CHECKED,
        ),
    ),
    read=each_row(_draft),
    paper_raw=11_588,
)
