"""SciTab: claims about the result tables of computer-science papers.

Passages are the caption, the column names and the rows. Cell marks such as ``[BOLD]`` are kept:
they say which result a paper stresses. The document is the paper.
"""

from decomposerl.claims.claim import Draft, LabelMap
from decomposerl.claims.fields import NativeRow, each_row
from decomposerl.claims.source import Form, NativeFile, Source


def _draft(row: NativeRow) -> Draft:
    return row.table_draft(
        native_id="id",
        document="paper_id",
        table="table_content_values",
        caption="table_caption",
        header="table_column_names",
        rows="table_content_values",
    )


SOURCE = Source(
    name="scitab",
    title="SciTab",
    domain="Sci. (tab)",
    homepage="https://github.com/XinyuanLu00/SciTab",
    license="MIT",
    terms="Open.",
    labels=LabelMap.of(supported="supports", refuted="refutes", middle="not enough info"),
    # The corpus has no splits; the paper trains on both verdict classes of the whole file.
    files=(NativeFile("scitab/sci_tab.json", "json_array", "train"),),
    forms=(
        Form.of(
            "native",
            "id, paper_id, claim, label, table_column_names, table_content_values",
            "XinyuanLu00/SciTab@217cfbd71ebf39ba26a0938f0d87a9fce560e0fe:dataset/sci_tab.json",
        ),
    ),
    read=each_row(_draft),
    paper_raw=868,
)
