"""LLM-AggreFact: claims about a document, graded supported or not, from eleven sets.

Takes the hub's Parquet rows (``dataset, doc, claim, label, contamination_identifier``),
gives one draft a row; ``subset`` is the part's name. The contamination identifier that
stands on every row is cut out of the texts: it marks leaked test data and is no evidence.

Left out deliberately: training on it. Its terms allow evaluation only, so it is off
unless a user opts in (``training_off``).
"""

from collections.abc import Iterator
from functools import partial

from decomposerl.claims.claim import Draft, Record, Reject
from decomposerl.claims.fields import held, integer, optional_text, read_each, text
from decomposerl.claims.labels import LabelMap
from decomposerl.claims.passages import sentences
from decomposerl.claims.source import CorpusFiles, HubLocation, NativeFile, Source


def read(files: CorpusFiles, file: NativeFile) -> Iterator[Draft | Reject]:
    """One draft a row; passages are the sentences of ``doc``.

    The corpus has no id of its own: the native id is split and row number.
    """
    return read_each(files, file, partial(_draft, file))


def _draft(file: NativeFile, record: Record) -> Draft:
    row = record.fields
    mark = (optional_text(row, "contamination_identifier") or "").strip()
    return Draft(
        file=record.file,
        row=record.row,
        native_id=f"{file.split}-{record.row}",
        split=file.split,
        claim=_without(mark, text(row, "claim")),
        passages=held(sentences(_without(mark, text(row, "doc"))), "doc"),
        native_label=str(integer(row, "label")),
        subset=text(row, "dataset"),
    )


def _without(mark: str, content: str) -> str:
    return content.replace(mark, "").strip() if mark else content


LLM_AGGREFACT = Source(
    name="llm_aggrefact",
    title="LLM-AggreFact",
    domain="News",
    homepage="https://huggingface.co/datasets/lytang/LLM-AggreFact",
    license="CC BY-ND 4.0",
    terms="Gated. The access terms allow evaluation only and say that the data should not be "
    "used for pre-training or fine-tuning.",
    labels=LabelMap.of(supported="1", refuted="0"),
    files=(NativeFile("llm_aggrefact/dev.parquet", "parquet", "dev"),),
    read=read,
    paper_raw=30_420,
    hub=HubLocation(
        "lytang/LLM-AggreFact",
        # The names that the hub gives to the only shard of a pushed split.
        (
            ("data/dev-00000-of-00001.parquet", "llm_aggrefact/dev.parquet"),
            ("data/test-00000-of-00001.parquet", "llm_aggrefact/test.parquet"),
        ),
        gated=True,
    ),
    training_off="its terms allow evaluation only, not pre-training or fine-tuning",
)
