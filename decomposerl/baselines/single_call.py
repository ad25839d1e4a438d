"""A decomposing method written out in one completion: the protocol ``single_call``.

Takes the words that open a method's trace, gives its procedure: one call to the template
``single_call`` with claim and evidence. The reply is free reasoning with the method's steps as
lines ``Q1: …`` and ``A1: …``, from which the cycles are read, and a last line ``Verdict:
Supported`` or ``Verdict: Refuted``.

Left out deliberately: holding the model to the method. Whether it asked anything is in the cycles.
"""

from decomposerl.baselines.method import (
    ClaimInput,
    ModelCall,
    Procedure,
    Steps,
    Verification,
    ask,
    status_of,
)
from decomposerl.baselines.pairs import cycles_of
from decomposerl.baselines.replies import read_labelled_verdict, read_pairs, whole_text

MOST_TOKENS = 3_072


def written_out(opening: str) -> Procedure:
    """The procedure that asks for the whole method at once. Calls per claim: 1."""

    def procedure(question: ClaimInput) -> Steps:
        variables = {"claim": question.claim, "evidence": question.evidence}
        call = ModelCall("procedure", "single_call", variables, max_tokens=MOST_TOKENS)
        (answer,) = yield from ask(call)
        verdict = read_labelled_verdict(answer)
        return Verification(
            verdict,
            status_of(verdict, answer),
            answer.text,
            cycles_of(read_pairs(whole_text(answer))),
            opening,
            spoken=answer,
        )

    return procedure
