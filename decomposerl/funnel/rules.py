"""The rules on evidence and claim (paper, "Rule-Based Filtering"; appendix "NER Grounding").

At least three sentences of evidence, 200 to 10,000 tokens, no claim copied from one sentence, at
least two entities. Entities are the costly rule, so the stage runs it last.
"""

import polars as pl

from decomposerl.funnel.evidence import facts_of, token_bounds, with_counted
from decomposerl.funnel.settings import RuleSettings
from decomposerl.funnel.step import Step, StepDecision, where
from decomposerl.ports import EntityRecogniser, TokenCounter


def passages_step(settings: RuleSettings, facts: pl.DataFrame) -> Step:
    """Drop text evidence of fewer than ``min_sentences`` sentences; adds no column.

    Tables are exempt: their rows are passages already.
    """

    def judge(frame: pl.DataFrame) -> StepDecision:
        counts = facts_of(frame, facts)["sentences"]
        is_text = frame["evidence_kind"] != "table"
        return StepDecision(
            frame,
            drop=is_text & (counts < settings.min_sentences),
            reason="too_few_passages",
            value=counts,
            threshold=settings.min_sentences,
        )

    return Step("passages", judge, ("too_few_passages",))


def token_budget_step(settings: RuleSettings, tokens: TokenCounter, facts: pl.DataFrame) -> Step:
    """Drop evidence shorter than ``min_tokens`` or longer than ``max_tokens``, both inclusive.

    Adds ``evidence_words``, ``evidence_tokens`` and ``token_unit``. Words and bytes bound the
    tokens; the tokenizer runs only where the bounds do not decide.
    ``evidence_tokens`` is exact, or null where nothing was counted. A claim dropped by a
    bound has that bound as ``value``: its most tokens if even these are too few, its least
    if these are too many.
    """
    reasons = ("too_few_tokens", "too_many_tokens")

    def judge(frame: pl.DataFrame) -> StepDecision:
        words, evidence = facts_of(frame, facts)["words"], frame["evidence"]
        low, high = token_bounds(evidence, words, tokens)
        few, many = high < settings.min_tokens, low > settings.max_tokens
        inside = (low >= settings.min_tokens) & (high <= settings.max_tokens)
        known = pl.select(pl.when(low == high).then(low)).to_series()
        counts = with_counted(known, evidence, ~(few | many | inside), tokens)
        value = counts.zip_with(counts.is_not_null(), high.zip_with(few, low))
        few, many = value < settings.min_tokens, value > settings.max_tokens
        return StepDecision(
            frame.with_columns(
                evidence_words=words, evidence_tokens=counts, token_unit=pl.lit(tokens.unit)
            ),
            drop=few | many,
            reason=where(few, *reasons),
            value=value,
            threshold=where(few, settings.min_tokens, settings.max_tokens),
            engine=tokens.unit,
        )

    return Step("token_budget", judge, reasons)


def overlap_step(settings: RuleSettings, facts: pl.DataFrame) -> Step:
    """Drop a claim whose ``overlap`` is above ``max_overlap``.

    Adds ``overlap``, the share of its content words inside its best single evidence sentence,
    0..1. With ``overlap_filter`` off the column is added and nothing is dropped.
    """

    def judge(frame: pl.DataFrame) -> StepDecision:
        overlap = facts_of(frame, facts)["overlap"]
        return StepDecision(
            frame.with_columns(overlap=overlap),
            drop=(overlap > settings.max_overlap) & settings.overlap_filter,
            reason="paraphrased_evidence",
            value=overlap,
            threshold=settings.max_overlap,
        )

    return Step("overlap", judge, ("paraphrased_evidence",))


def entities_step(settings: RuleSettings, recogniser: EntityRecogniser) -> Step:
    """Drop a claim of fewer than ``min_entities`` distinct non-empty entities, its ``entities``."""

    def judge(frame: pl.DataFrame) -> StepDecision:
        texts = frame["claim"].to_list()
        forms_of = recogniser.entities(texts) if texts else []
        distinct = [list(dict.fromkeys(filter(None, forms))) for forms in forms_of]
        entities = pl.Series(distinct, dtype=pl.List(pl.String()))
        counts = entities.list.len().cast(pl.Int64())
        return StepDecision(
            frame.with_columns(entities=entities),
            drop=counts < settings.min_entities,
            reason="too_few_entities",
            value=counts,
            threshold=settings.min_entities,
            engine=recogniser.engine,
        )

    return Step("entities", judge, ("too_few_entities",))
