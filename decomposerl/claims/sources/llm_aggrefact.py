"""LLM-AggreFact: claims about a document, graded supported or not, from eleven sets.

``subset`` is the part's name. The contamination identifier on every row is cut out of the texts:
it marks leaked test data and is no evidence. The terms allow evaluation only, so training on it
is off unless a user opts in (``training_off``).
"""

from decomposerl.claims.claim import Draft
from decomposerl.claims.fields import NativeRow, each_row, non_blank
from decomposerl.claims.passages import sentence_passages


def _draft(row: NativeRow) -> Draft:
    """The corpus has no id: the native id is split and row number."""
    mark = (row.optional("contamination_identifier", row.text) or "").strip()
    return row.draft(
        non_blank(sentence_passages(_without(mark, row.text("doc"))), "doc"),
        native_id=f"{row.file.split}-{row.record.row}",
        claim=_without(mark, row.text("claim")),
        native_label=str(row.integer("label")),
        subset=row.text("dataset"),
    )


def _without(mark: str, content: str) -> str:
    return content.replace(mark, "").strip() if mark else content


READERS = {"default": each_row(_draft)}
