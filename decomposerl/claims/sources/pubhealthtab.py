"""PubHealth-Tab: public-health claims checked against a web table.

Passages are the caption, the horizontal header and the rows. ``header_vertical`` repeats the
first cells and ``html_code`` is damaged in places: neither is used.
"""

from decomposerl.claims.claim import Draft, LabelMap
from decomposerl.claims.fields import NativeRow, each_row, non_blank
from decomposerl.claims.passages import table_passages
from decomposerl.claims.source import NativeFile, Source


def _draft(row: NativeRow) -> Draft:
    table = table_passages(
        row.optional_text("table.caption"),
        row.items("table.header_horizontal"),
        row.rows("table.rows"),
    )
    return row.draft(
        native_id=row.identifier("_id"),
        claim=row.text("claim"),
        passages=non_blank(table, "table"),
        native_label=row.text("label"),
        documents=(row.text("table.website"),),
        evidence_kind="table",
    )


SOURCE = Source(
    name="pubhealthtab",
    title="PubHealth-Tab",
    domain="Health (tab)",
    homepage="https://github.com/mubasharaak/PubHealthTab",
    license="CC BY-NC 4.0 (data); MIT (repository)",
    terms="Non-commercial use only.",
    labels=LabelMap.of(supported="SUPPORTS", refuted="REFUTES", middle="NOT ENOUGH INFO"),
    files=(
        NativeFile("pubhealthtab/pubhealthtab_trainset.jsonl", "jsonl", "train"),
        NativeFile("pubhealthtab/pubhealthtab_evalset.jsonl", "jsonl", "dev"),
    ),
    read=each_row(_draft),
    paper_raw=2_664,
)
