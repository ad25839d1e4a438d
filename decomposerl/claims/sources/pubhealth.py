"""PubHealth: public-health claims with the fact-check article behind them.

Passages are the sentences of ``main_text``. Labels come in any letter case; an empty one and the
hub loader's ``-1`` are unknown labels. ``explanation`` is not used: it gives the verdict away.
The hub's form numbers the labels.
"""

import hashlib

from decomposerl.claims.claim import Draft, LabelMap
from decomposerl.claims.fields import NativeRow, each_row, non_blank
from decomposerl.claims.passages import sentence_passages
from decomposerl.claims.source import Form, NativeFile, Source, with_hub

# The loader names the columns of the published files, which it reads by place.
_LOADER = (
    "huggingface/datasets@0d850109def3fa79685ea47fb398078f140931e2:"
    "datasets/health_fact/health_fact.py"
)
_CLASSES = ("false", "mixture", "true", "unproven")


def native_file(name: str, split: str) -> NativeFile:
    """A file of the published archive, whose folder is ``PUBHEALTH``, and its hub forms."""
    also = (f"pubhealth/PUBHEALTH/{name}.tsv",)
    return with_hub(NativeFile(f"pubhealth/{name}.tsv", "tsv", split, also=also))


EXCERPT = NativeFile("pubhealth/tuning_excerpt.tsv", "tsv", "dev")


def _draft(row: NativeRow) -> Draft:
    article = row.text("main_text")
    # Claims about one article belong together, and the excerpt carries no address.
    digest = hashlib.sha256(article.strip().encode("utf-8", "surrogatepass")).hexdigest()
    return row.draft(
        native_id=row.identifier("claim_id"),
        claim=row.text("claim"),
        passages=non_blank(sentence_passages(article), "main_text"),
        native_label=row.class_label("label", _CLASSES),
        documents=(f"article:{digest[:16]}",),
    )


SOURCE = Source(
    name="pubhealth",
    title="PubHealth",
    domain="Health",
    homepage="https://github.com/neemakot/Health-Fact-Checking",
    license="MIT (repository); articles belong to their fact-checkers",
    terms="Open.",
    labels=LabelMap.of(supported="true", refuted="false", middle="mixture, unproven"),
    files=(
        native_file("train", "train"),
        native_file("dev", "dev"),
        EXCERPT,
    ),
    forms=(Form.of("native or hub", "claim_id, claim, main_text, label", _LOADER, _LOADER),),
    read=each_row(_draft),
    paper_raw=9_096,
)
