"""PubHealth: public-health claims with the fact-check article behind them.

Passages are the sentences of ``main_text``. Labels come in any letter case; an empty one and the
hub loader's ``-1`` are unknown labels. ``explanation`` is not used: it gives the verdict away.
The hub's form numbers the labels.
"""

import hashlib

from decomposerl.claims.claim import Draft
from decomposerl.claims.fields import NativeRow, each_row, non_blank
from decomposerl.claims.passages import sentence_passages

_CLASSES = ("false", "mixture", "true", "unproven")


def _draft(row: NativeRow) -> Draft:
    article = row.text("main_text")
    # Claims about one article belong together, and the excerpt carries no address.
    digest = hashlib.sha256(article.strip().encode("utf-8", "surrogatepass")).hexdigest()
    return row.draft(
        non_blank(sentence_passages(article), "main_text"),
        native_id=row.identifier("claim_id"),
        native_label=row.class_label("label", _CLASSES),
        documents=(f"article:{digest[:16]}",),
    )


READERS = {"default": each_row(_draft)}
