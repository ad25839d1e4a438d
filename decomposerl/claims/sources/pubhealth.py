"""PubHealth: public-health claims with the fact-check article behind them.

Passages are the sentences of ``main_text``. Labels come in any letter case; an empty one and the
hub loader's ``-1`` are unknown labels. ``explanation`` is not used: it gives the verdict away.
The hub's form numbers the labels.
"""

from decomposerl.claims.claim import Draft, short_digest
from decomposerl.claims.fields import NativeRow, each_row, non_blank
from decomposerl.claims.passages import sentence_passages

_CLASSES = ("false", "mixture", "true", "unproven")


def _draft(row: NativeRow) -> Draft:
    article = row.text("main_text")
    return row.draft(
        non_blank(sentence_passages(article), "main_text"),
        native_id=row.identifier("claim_id"),
        native_label=row.class_label("label", _CLASSES),
        # Claims about one article belong together, and the excerpt carries no address.
        documents=(f"article:{short_digest(article.strip())}",),
    )


READERS = {"default": each_row(_draft)}
