"""Procedures of one call, and the method that a decomposing procedure makes.

A decomposing method has a second protocol, ``single_call``: the whole method written out in one
completion. The reply is free reasoning with the method's steps as lines ``Q1: …`` and ``A1: …``,
from which the cycles are read, and a last line ``Verdict: Supported`` or ``Verdict: Refuted``.
Whether the model kept to the method shows in the cycles only.
"""

from collections.abc import Callable

from decomposerl.baselines.method import (
    ClaimInput,
    Method,
    ModelCall,
    Procedure,
    Steps,
    Verification,
    ask_verdict,
    noting_repeats,
)
from decomposerl.baselines.pairs import cycles_of
from decomposerl.replies.lists import read_pairs

MOST_TOKENS = 3_072


def one_call(form: str, max_tokens: int) -> Procedure:
    """Claim and evidence in, one reply out: the template ``verdict``. Calls per claim: 1.

    ``form``: see ``ModelCall``.
    """

    def procedure(given: ClaimInput) -> Steps:
        call = ModelCall("verify", "verdict", given.variables, max_tokens=max_tokens)
        reply, verdict = yield from ask_verdict(call, form)
        return Verification.of_reply(verdict, reply)

    return noting_repeats(procedure)


def written_out(opening: str) -> Procedure:
    """The whole method in one completion: the template ``single_call``. Calls per claim: 1."""

    def procedure(given: ClaimInput) -> Steps:
        call = ModelCall("procedure", "single_call", given.variables, max_tokens=MOST_TOKENS)
        reply, verdict = yield from ask_verdict(call, "last_line")
        cycles = cycles_of(read_pairs(reply.whole))
        return Verification.of_reply(verdict, reply, cycles, opening)

    return noting_repeats(procedure)


def decomposing(  # noqa: PLR0913 - the parts of a method
    faithful: Procedure,
    opening: str,
    *,
    name: str,
    title: str,
    publication: str,
    calls: str,
    formula: Callable[[Verification], int],
    revision: int = 1,
    three_way: bool = False,
) -> Method:
    """A method in both protocols, prompted from the file of its name; ``opening`` begins traces."""
    return Method(
        name=name,
        title=title,
        publication=publication,
        calls=calls,
        procedures={"faithful": noting_repeats(faithful), "single_call": written_out(opening)},
        formula=formula,
        prompt=name,
        revision=revision,
        three_way=three_way,
    )
