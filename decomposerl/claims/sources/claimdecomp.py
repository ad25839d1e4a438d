"""ClaimDecomp: political claims with the fact-checker's article.

Evidence is the justification and the full article where the download has them; rows without
either keep the claim alone. The evidence may state the rating in words: evaluation reports with
and without those sentences.
"""

from decomposerl.claims.claim import Draft
from decomposerl.claims.fields import NativeRow, each_row


def _draft(row: NativeRow) -> Draft:
    """The document is the article's address, else the example's id."""
    # The justification is often a part of the article: a paragraph counts once.
    paragraphs = dict.fromkeys(
        row.optional_strings("justification") + row.optional_strings("full_article")
    )
    native_id = row.identifier("example_id")
    return row.draft(
        tuple(paragraph for paragraph in paragraphs if paragraph.strip()),
        native_id=native_id,
        documents=(row.optional_text("url") or native_id,),
    )


READERS = {"default": each_row(_draft)}
