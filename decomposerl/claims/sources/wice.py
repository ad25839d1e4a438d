"""WiCE: Wikipedia sentences checked against the web pages that they cite.

Claims and the non-supported-token sub-claims have the same fields; ``subset`` tells the two
granularities apart. Passages are the sentences of the web page. ``supporting_sentences`` and
token spans are not used: they say where the answer is, which a verifier must find itself.
"""

from decomposerl.claims.claim import Draft
from decomposerl.claims.fields import NativeRow, each_row, non_blank


def _draft(row: NativeRow) -> Draft:
    native_id = row.identifier("meta.id")
    return row.draft(
        non_blank(row.strings("evidence"), "evidence"),
        native_id=native_id,
        # The id before its sub-claim suffix: a claim and its sub-claims cite the same page.
        documents=(native_id.split("-", 1)[0],),
    )


READERS = {"default": each_row(_draft)}
