"""Rule: the evidence has 200 to 10,000 tokens, inclusive (paper, "Rule-Based Filtering").

The step adds ``evidence_words``, ``evidence_tokens`` and ``token_unit``.
"""

import polars as pl

from decomposerl.funnel.evidence import facts_of, token_bounds, with_counted
from decomposerl.funnel.settings import RuleSettings
from decomposerl.funnel.step import Step, StepDecision, where
from decomposerl.ports import TokenCounter

TOO_FEW, TOO_MANY = "too_few_tokens", "too_many_tokens"


def token_budget_step(settings: RuleSettings, tokens: TokenCounter, facts: pl.DataFrame) -> Step:
    """Drop evidence shorter than ``min_tokens`` or longer than ``max_tokens``.

    Words and bytes bound the tokens; the tokenizer runs only where the bounds do not decide.
    ``evidence_tokens`` is exact, or null where nothing was counted. A claim dropped by a
    bound has that bound as ``value``: its most tokens if even these are too few, its least
    if these are too many.
    """

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
            reason=where(few, TOO_FEW, TOO_MANY),
            value=value,
            threshold=where(few, settings.min_tokens, settings.max_tokens),
            engine=tokens.unit,
        )

    return Step("token_budget", judge, (TOO_FEW, TOO_MANY))
