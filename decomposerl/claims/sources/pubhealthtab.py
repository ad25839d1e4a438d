"""PubHealth-Tab: public-health claims checked against a web table.

Passages are the caption, the horizontal header and the rows. ``header_vertical`` repeats the
first cells and ``html_code`` is damaged in places: neither is used.
"""

from decomposerl.claims.claim import Draft, LabelMap
from decomposerl.claims.fields import NativeRow, each_row
from decomposerl.claims.source import Form, NativeFile, Source


def _draft(row: NativeRow) -> Draft:
    return row.table_draft(
        native_id="_id",
        document="table.website",
        table="table",
        caption="table.caption",
        header="table.header_horizontal",
        rows="table.rows",
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
    forms=(
        Form.of(
            "native",
            "_id, claim, label, table",
            "mubasharaak/PubHealthTab@c771d73b9197f85be9fbe727860e9d1348df7544:"
            "data/pubhealthtab_evalset.jsonl",
        ),
    ),
    read=each_row(_draft),
    paper_raw=2_664,
)
