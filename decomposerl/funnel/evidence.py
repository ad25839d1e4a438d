"""Facts about each claim's evidence, read once for all rules, and token counts on demand."""

import numpy as np
import polars as pl

from decomposerl.kernels.evidence_scan import scan
from decomposerl.kernels.unspaced import unspaced_rows
from decomposerl.ports import TokenCounter

TEXTS_A_BLOCK = 4_096


def evidence_facts(claims: pl.DataFrame) -> pl.DataFrame:
    """Per ``claim_id`` its ``sentences``, ``words`` and ``overlap``; reads all text once.

    ``sentences`` are those of the evidence (lines of a table), ``words`` its white-space
    words, ``overlap`` the share of the claim's content words in its best sentence, 0..1.
    """
    facts = scan(claims["claim"], claims["evidence"], claims["evidence_kind"] == "table")
    columns = {"sentences": facts.sentences, "words": facts.words, "overlap": facts.overlap}
    return claims.select("claim_id", **{name: pl.Series(of) for name, of in columns.items()})


def facts_of(frame: pl.DataFrame, facts: pl.DataFrame) -> pl.DataFrame:
    """The facts of the rows of ``frame``, in its order."""
    return frame.select("claim_id").join(facts, on="claim_id", how="left", maintain_order="left")


def token_bounds(
    evidence: pl.Series, words: pl.Series, tokens: TokenCounter
) -> tuple[pl.Series, pl.Series]:
    """Least and most tokens that each text can have; without spaces its words are unknown."""
    utf8_bytes = evidence.str.len_bytes().cast(pl.Int64())
    low, high = tokens.bounds(words.to_numpy(), utf8_bytes.to_numpy())
    high = np.where(unspaced_rows(evidence).to_numpy(), np.maximum(high, utf8_bytes), high)
    return pl.Series(low, dtype=pl.Int64()), pl.Series(high, dtype=pl.Int64())


def with_counted(
    known: pl.Series, evidence: pl.Series, wanted: pl.Series, tokens: TokenCounter
) -> pl.Series:
    """``known`` token counts, with those of the ``wanted`` texts counted, equal texts once."""
    texts = evidence.filter(wanted).to_frame("text")
    distinct = texts.unique(maintain_order=True)
    if distinct.is_empty():
        return known
    blocks = distinct.iter_slices(TEXTS_A_BLOCK)
    counts = np.concatenate([tokens.count(block["text"].to_list()) for block in blocks])
    all_counts = texts.join(
        distinct.with_columns(tokens=counts), on="text", how="left", maintain_order="left"
    )
    counted = np.zeros(len(known), np.int64)
    counted[wanted.to_numpy()] = all_counts["tokens"]
    return known.zip_with(~wanted, pl.Series(counted))
