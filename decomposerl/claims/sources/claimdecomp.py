"""ClaimDecomp: political claims with the fact-checker's article.

Evidence is the justification and the full article where the download has them; rows without
either keep the claim alone. The evidence may state the rating in words: evaluation reports with
and without those sentences.
"""

from itertools import chain

from decomposerl.claims.claim import Draft
from decomposerl.claims.fields import NativeRow, each_row


def _draft(row: NativeRow) -> Draft:
    """The document is the article's address, else the example's id."""
    # The justification is often a part of the article: a paragraph counts once.
    texts = (row.optional(name, row.strings) or () for name in ("justification", "full_article"))
    paragraphs = dict.fromkeys(chain.from_iterable(texts))
    native_id = row.identifier("example_id")
    return row.draft(
        tuple(paragraph for paragraph in paragraphs if paragraph.strip()),
        native_id=native_id,
        documents=(row.optional("url", row.text) or native_id,),
    )


READERS = {"default": each_row(_draft)}
