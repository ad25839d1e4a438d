"""CoT: reason about claim and evidence, then say the verdict (paper, section 4, base prompts).

Calls per claim: 1. Both protocols are this one call. The reply is free reasoning whose last line
is ``Verdict: Supported`` or ``Verdict: Refuted``; a reply that the token limit cuts before that
line is truncated.

Left out deliberately: a trace. The reasoning holds no questions.
"""

from decomposerl.baselines.method import (
    ClaimInput,
    Method,
    ModelCall,
    Steps,
    Verification,
    ask,
    status_of,
)
from decomposerl.baselines.replies import read_labelled_verdict

MOST_TOKENS = 2_048


def chain_of_thought(question: ClaimInput) -> Steps:
    """Ask for reasoning and the label.

    Raises:
        CallFailedError: the call got no answer.
    """
    variables = {"claim": question.claim, "evidence": question.evidence}
    (answer,) = yield from ask(ModelCall("verify", "verdict", variables, max_tokens=MOST_TOKENS))
    verdict = read_labelled_verdict(answer)
    return Verification(verdict, status_of(verdict, answer), answer.text, spoken=answer)


METHOD = Method(
    name="cot",
    title="CoT",
    publication="Wei et al. 2022",
    calls="1",
    procedures={"faithful": chain_of_thought, "single_call": chain_of_thought},
    expected_calls=lambda _: 1,
    prompt="cot",
    decomposes=False,
)
