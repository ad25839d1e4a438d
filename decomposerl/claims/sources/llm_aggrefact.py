"""LLM-AggreFact: claims about a document, graded supported or not, from eleven sets.

``subset`` is the part's name. The contamination identifier on every row is cut out of the texts:
it marks leaked test data and is no evidence. The terms allow evaluation only, so training on it
is off unless a user opts in (``training_off``).
"""

from decomposerl.claims.claim import Draft, LabelMap
from decomposerl.claims.fields import NativeRow, each_row, non_blank
from decomposerl.claims.passages import sentence_passages
from decomposerl.claims.source import Form, HubLocation, NativeFile, Source, with_hub


def _draft(row: NativeRow) -> Draft:
    """The corpus has no id: the native id is split and row number."""
    mark = (row.optional_text("contamination_identifier") or "").strip()
    return row.draft(
        native_id=f"{row.file.split}-{row.record.row}",
        claim=_without(mark, row.text("claim")),
        passages=non_blank(sentence_passages(_without(mark, row.text("doc"))), "doc"),
        native_label=str(row.integer("label")),
        subset=row.text("dataset"),
    )


def _without(mark: str, content: str) -> str:
    return content.replace(mark, "").strip() if mark else content


SOURCE = Source(
    name="llm_aggrefact",
    title="LLM-AggreFact",
    domain="News",
    homepage="https://huggingface.co/datasets/lytang/LLM-AggreFact",
    license="CC BY-ND 4.0",
    terms="Gated. The access terms allow evaluation only and say that the data should not be "
    "used for pre-training or fine-tuning.",
    labels=LabelMap.of(supported="1", refuted="0"),
    files=(with_hub(NativeFile("llm_aggrefact/dev.parquet", "parquet", "dev"), split="dev"),),
    forms=(
        Form.of(
            "hub",
            "dataset, doc, claim, label",
            "salvatore-bufi/jev_factcheck@be1eaacc146392f47bea436e249cdd59053d77c0:"
            "data/hub_metadata.json",
        ),
    ),
    read=each_row(_draft),
    paper_raw=30_420,
    hub=HubLocation(
        "lytang/LLM-AggreFact",
        (
            ("data/dev-00000-of-00001.parquet", "llm_aggrefact/dev.parquet"),
            ("data/test-00000-of-00001.parquet", "llm_aggrefact/test.parquet"),
        ),
        gated=True,
    ),
    training_off="its terms allow evaluation only, not pre-training or fine-tuning",
)
