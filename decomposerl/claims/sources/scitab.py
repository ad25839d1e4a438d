"""SciTab: claims about the result tables of computer-science papers.

Passages are the caption, the column names and the rows. Cell marks such as ``[BOLD]`` are kept:
they say which result a paper stresses. The document is the paper.
"""

from decomposerl.claims.claim import Draft
from decomposerl.claims.fields import NativeRow, each_row


def _draft(row: NativeRow) -> Draft:
    return row.table_draft(
        native_id="id",
        document="paper_id",
        table="table_content_values",
        caption="table_caption",
        header="table_column_names",
        rows="table_content_values",
    )


READERS = {"default": each_row(_draft)}
