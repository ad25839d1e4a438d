"""Rule: the evidence has 200 to 10,000 tokens, inclusive (paper, "Rule-Based Filtering").

Takes claims with ``evidence`` and a ``TokenCounter``, gives a step that adds
``evidence_tokens`` and ``token_unit``.

Left out deliberately: which tokenizer counts; it is a port.
"""

import polars as pl

from decomposerl.funnel.settings import RuleSettings
from decomposerl.funnel.step import Judgement, Step
from decomposerl.ports import TokenCounter

TOO_FEW, TOO_MANY = "too_few_tokens", "too_many_tokens"


def token_budget_step(settings: RuleSettings, tokens: TokenCounter) -> Step:
    """Drop evidence shorter than ``min_tokens`` or longer than ``max_tokens``."""

    def judge(frame: pl.DataFrame) -> Judgement:
        texts = frame["evidence"].to_list()
        counts = pl.Series(tokens.count(texts) if texts else [], dtype=pl.Int64())
        few, many = counts < settings.min_tokens, counts > settings.max_tokens
        bounds = pl.DataFrame({"few": few}).select(
            reason=pl.when("few").then(pl.lit(TOO_FEW)).otherwise(pl.lit(TOO_MANY)),
            bound=pl.when("few").then(settings.min_tokens).otherwise(settings.max_tokens),
        )
        return Judgement(
            frame.with_columns(evidence_tokens=counts, token_unit=pl.lit(tokens.unit)),
            drop=few | many,
            reason=bounds["reason"],
            value=counts,
            threshold=bounds["bound"],
        )

    return Step("token_budget", judge, (TOO_FEW, TOO_MANY))
