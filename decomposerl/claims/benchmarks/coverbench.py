"""CoverBench: complex claims over long contexts from nine tasks, for testing only.

The gated hub file is JSON lines, or a JSON array, of ``context, claim, label``; passages are the
lines of the context, cut into sentences. The terms allow test use only: there is no training
source.
"""

from decomposerl.claims.claim import Draft
from decomposerl.claims.fields import NativeRow, each_row, non_blank
from decomposerl.claims.passages import sentence_passages


def _draft(row: NativeRow) -> Draft:
    return row.draft(
        non_blank(sentence_passages(row.text("context")), "context"),
        native_id=f"{row.file.split}-{row.record.row}",  # not every form may have an id
        native_label="true" if row.boolean("label") else "false",
    )


READERS = {"default": each_row(_draft)}
