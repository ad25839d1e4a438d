"""PubHealth-Tab: public-health claims checked against a web table.

Passages are the caption, the horizontal header and the rows. ``header_vertical`` repeats the
first cells and ``html_code`` is damaged in places: neither is used.
"""

from decomposerl.claims.claim import Draft
from decomposerl.claims.fields import NativeRow, each_row


def _draft(row: NativeRow) -> Draft:
    return row.table_draft(
        native_id="_id",
        document="table.website",
        table="table",
        caption="table.caption",
        header="table.header_horizontal",
        rows="table.rows",
    )


READERS = {"default": each_row(_draft)}
