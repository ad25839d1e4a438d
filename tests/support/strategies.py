"""Hypothesis strategies for claim frames of every funnel table, and settings of properties."""

from collections.abc import Sequence

import polars as pl
from hypothesis import settings
from hypothesis import strategies as st

from decomposerl.schemas import TRAINING_CLAIMS
from decomposerl.table import Table
from plain_rows import plain


def law(examples: int) -> settings:
    """Settings of a property test: that many examples in the nightly run, a third in `make test`.

    There they are the same each time; the nightly profile (tests/conftest.py) draws new ones.
    """
    nightly = settings.get_current_profile_name() == "nightly"
    return settings(max_examples=examples if nightly else examples // 3)


LAW = law(60)
EACH_LAW = law(25)  # of a law that is drawn anew for each of many members
FRAME_LAW = law(25)  # frames are slow to generate
SOURCES = ("hover", "scitab", "wice")
VOCABULARY = ("Ilva", "Torbeck", "bridge", "opened", "in", "1921", "the", "not", "river", "Ösk")

words = st.sampled_from(VOCABULARY)
sentence = st.lists(words, min_size=1, max_size=8).map(" ".join)
any_text = st.text(max_size=40)
claim_text = sentence | sentence.map(str.lower) | any_text.filter(str.strip)
passages = st.lists(sentence.map(lambda text: f"{text.capitalize()}."), min_size=1, max_size=6)
share = st.integers(0, 100).map(lambda percent: percent / 100)


@st.composite
def rows(draw: st.DrawFn) -> dict[str, object]:
    """One claim with every column of the funnel except its id, which ``frame_of`` adds."""
    evidence = draw(passages)
    label = draw(st.sampled_from(("Supported", "Refuted")))
    probability = draw(share)
    questions = draw(st.lists(sentence, min_size=2, max_size=4, unique=True))
    source = draw(st.sampled_from(SOURCES))
    return (
        plain("training_claims")
        | {"source": source, "claim": draw(claim_text), "label": label}
        | {"evidence": "\n".join(evidence), "passages": evidence}
        | {"native_label": label.lower()}
        | {"evidence_words": sum(len(text.split()) for text in evidence)}
        | {"overlap": draw(share), "support_probability": probability, "questions": questions}
        | {"n_star": len(questions)}
        | {"label_confidence": probability if label == "Supported" else 1 - probability}
        | {"evidence_kind": draw(st.sampled_from(("text", "table")))}
        | {"document_id": draw(st.none() | st.just("page"))}
        | {"num_hops": draw(st.none() | st.integers(1, 4))}
        | {"evidence_tokens": draw(st.none() | st.integers(0, 6_000))}
        | {"entities": ["ilva", "torbeck"], "bucket": f"{label}|{source}"}
        | {"origin": "long_evidence"}
    )


def frame_of(table: Table, drawn: Sequence[dict[str, object]]) -> pl.DataFrame:
    """The rows as a frame of ``table``, with ids from their positions."""
    named = [
        row | {"claim_id": f"{index:016x}", "native_id": str(index)}
        for index, row in enumerate(drawn)
    ]
    whole = pl.DataFrame(named, schema=TRAINING_CLAIMS.schema)
    return table.conform(whole.select(list(table.schema)))


def frames(table: Table, max_size: int = 8) -> st.SearchStrategy[pl.DataFrame]:
    """Frames of ``table`` with up to ``max_size`` claims from a small vocabulary.

    The small vocabulary makes duplicates, overlaps and near copies common.
    """
    return st.lists(rows(), max_size=max_size).map(lambda drawn: frame_of(table, drawn))


def example_row(**columns: object) -> dict[str, object]:
    """One plain claim for example-based tests, with some columns overridden."""
    row = plain("training_claims", **columns)
    return {"evidence_words": len(str(row["evidence"]).split())} | row
