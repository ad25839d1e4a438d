"""Rule: the evidence has 200 to 10,000 tokens, inclusive (paper, "Rule-Based Filtering").

Takes claims with ``evidence``, their facts and a ``TokenCounter``, gives a step that adds
``evidence_words``, ``evidence_tokens`` and ``token_unit``.
"""

import polars as pl

from decomposerl.funnel.evidence import facts_of, token_bounds, with_counted
from decomposerl.funnel.settings import RuleSettings
from decomposerl.funnel.step import Step, StepDecision
from decomposerl.ports import TokenCounter

TOO_FEW, TOO_MANY = "too_few_tokens", "too_many_tokens"


def token_budget_step(settings: RuleSettings, tokens: TokenCounter, facts: pl.DataFrame) -> Step:
    """Drop evidence shorter than ``min_tokens`` or longer than ``max_tokens``.

    Words and bytes bound the tokens, and only where the bounds leave the answer open is the
    tokenizer asked. ``evidence_tokens`` is exact, or null where nobody counted; a claim
    dropped by a bound is judged by it: by the most tokens it can have where even these are
    too few, by the least where these are too many.
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
        bounds = pl.DataFrame({"few": few}).select(
            reason=pl.when("few").then(pl.lit(TOO_FEW)).otherwise(pl.lit(TOO_MANY)),
            bound=pl.when("few").then(settings.min_tokens).otherwise(settings.max_tokens),
        )
        return StepDecision(
            frame.with_columns(
                evidence_words=words, evidence_tokens=counts, token_unit=pl.lit(tokens.unit)
            ),
            drop=few | many,
            reason=bounds["reason"],
            value=value,
            threshold=bounds["bound"],
            engine=tokens.unit,
        )

    return Step("token_budget", judge, (TOO_FEW, TOO_MANY))
