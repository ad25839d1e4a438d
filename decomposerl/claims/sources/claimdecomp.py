"""ClaimDecomp: political claims with the fact-checker's article.

Evidence is the justification and the full article where the download has them; rows without
either keep the claim alone. The evidence may state the rating in words: evaluation reports with
and without those sentences.
"""

from decomposerl.claims.claim import Draft, LabelMap
from decomposerl.claims.fields import NativeRow, each_row
from decomposerl.claims.source import NOT_CHECKED, Form, NativeFile, Source, with_hub


def _draft(row: NativeRow) -> Draft:
    """The document is the article's address, else the example's id."""
    # The justification is often a part of the article: a paragraph counts once.
    paragraphs = dict.fromkeys(
        row.optional_strings("justification") + row.optional_strings("full_article")
    )
    native_id = row.identifier("example_id")
    return row.draft(
        native_id=native_id,
        claim=row.text("claim"),
        passages=tuple(paragraph for paragraph in paragraphs if paragraph.strip()),
        native_label=row.text("label"),
        documents=(row.optional_text("url") or native_id,),
    )


SOURCE = Source(
    name="claimdecomp",
    title="ClaimDecomp",
    domain="Politics",
    homepage="https://github.com/jifan-chen/subquestions-for-fact-checking",
    license="not stated with the files; articles belong to the fact-checker",
    terms="The files have no articles; see the homepage before redistribution.",
    # Six grades, two sides: only "true" is fully supported (as MiniCheck reads it), the
    # three false grades are refuted, and what lies between is the middle class. The
    # paper's raw count of 569 also implies that grades were dropped.
    labels=LabelMap.of(
        supported="true", refuted="pants-fire, false, barely-true", middle="half-true, mostly-true"
    ),
    files=(
        with_hub(NativeFile("claimdecomp/train.jsonl", "jsonl", "train")),
        with_hub(NativeFile("claimdecomp/dev.jsonl", "jsonl", "dev")),
    ),
    forms=(
        Form.of(
            "native or hub",
            "example_id, claim, label",
            "jifan-chen/subquestions-for-fact-checking@fa59dcca483b5430e7c4606185ad0c6dcc73af67:"
            "README.md",
            NOT_CHECKED,
        ),
    ),
    read=each_row(_draft),
    paper_raw=569,
)
