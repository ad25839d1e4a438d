"""FoolMeTwice: claims that players wrote to fool each other, with Wikipedia sentences.

Passages are the retrieved sentences, which contain every gold one: with ``gold_evidence`` alone,
one or two sentences, no row could reach the funnel's least number of passages.
"""

from decomposerl.claims.claim import Draft
from decomposerl.claims.fields import NativeRow, each_row, non_blank


def _draft(row: NativeRow) -> Draft:
    retrieved = [sentence.text("text") for sentence in row.objects("retrieved_evidence")]
    return row.draft(
        non_blank(retrieved, "retrieved_evidence"),
        claim=row.text("text"),
        documents=(row.text("wikipedia_page"),),
    )


READERS = {"default": each_row(_draft)}
