"""Simple: claim and evidence in, one word out (paper, section 4, base prompts).

Calls per claim: 1. Both protocols are this one call. The reply is ``Supported`` or ``Refuted``.

Left out deliberately: reasoning (``cot``).
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
from decomposerl.baselines.replies import read_verdict

MOST_TOKENS = 16
"""A label and what stands around it; a model that explains itself is cut there."""


def simple(question: ClaimInput) -> Steps:
    """Ask for the label.

    Raises:
        CallFailedError: the call got no answer.
    """
    variables = {"claim": question.claim, "evidence": question.evidence}
    (answer,) = yield from ask(ModelCall("verify", "verdict", variables, max_tokens=MOST_TOKENS))
    verdict = read_verdict(answer)
    return Verification(verdict, status_of(verdict, answer), answer.text, spoken=answer)


METHOD = Method(
    name="simple",
    title="Simple",
    publication="the paper, section 4",
    calls="1",
    procedures={"faithful": simple, "single_call": simple},
    expected_calls=lambda _: 1,
    prompt="simple",
    decomposes=False,
)
