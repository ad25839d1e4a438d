"""CoT: reason about claim and evidence, then give the verdict (paper, section 4, base prompts).

Calls per claim: 1, and the repeated call. Both protocols are this one call. The reply is free
reasoning whose last line is ``Verdict: Supported`` or ``Verdict: Refuted``; a reply that the token
limit cuts before that line is truncated. The reasoning holds no questions, so there is no trace.
"""

from decomposerl.baselines.method import Method
from decomposerl.baselines.single_call import one_call

_PROCEDURE = one_call("last_line", max_tokens=2_048)

METHOD = Method(
    name="cot",
    title="CoT",
    publication="Wei et al. 2022",
    calls="1",
    procedures={"faithful": _PROCEDURE, "single_call": _PROCEDURE},
    formula=lambda _: 1,
    prompt="cot",
    decomposes=False,
    revision=2,
    three_way=True,
)
