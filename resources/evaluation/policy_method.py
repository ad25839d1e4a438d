"""DecomposeRL at inference: a policy writes one trace a claim, greedily (paper, section 3.1).

Takes the recipe's view of the evidence and its limits, gives the procedure that asks for the trace
and reads verdict and cycles from it. The judge is never asked. Calls per claim: 1, and one more
for each sample where agreement is asked for.

The verdict is the trace's; faults of the grammar besides are counted in a note and cost nothing. A
trace that the token limit cut before its verdict is truncated, one without a readable verdict
unparsed.

Left out deliberately: where the policy runs (in this process or at an endpoint; both are callers),
and any repair of a trace.
"""

from dataclasses import dataclass, replace

from decomposerl.baselines.method import (
    ClaimInput,
    ModelCall,
    ModelReply,
    Procedure,
    Steps,
    Verification,
    ask,
    status_of,
)
from decomposerl.prompts.policy import NAME
from decomposerl.traces.grammar import parse_trace
from decomposerl.traces.trace import Verdict
from decomposerl.training.evidence_view import evidence_view
from decomposerl.training.experiment import EvidenceView, Experiment

PROMPT = NAME
REVISION = 1
"""Raised whenever a change of this file, of the evidence's view or of the grammar that reads a
trace may change a verdict, a trace or a call: earlier answers are not the new code's."""
AGREEMENT = "agreement"
"""The note with the share of samples whose verdict is the greedy one's."""


@dataclass(frozen=True, slots=True)
class PolicyAsking:
    """What decides a policy's answers besides its weights.

    ``view`` is what the policy sees of the evidence, None for all of it. ``samples`` further
    traces are drawn at ``temperature`` for the agreement; 0 for none.
    """

    view: EvidenceView | None = None
    max_tokens: int = 4_500
    samples: int = 0
    temperature: float = 1.0


def asking_of(experiment: Experiment, samples: int = 0) -> PolicyAsking:
    """As a recipe's policy was trained: its view, its token limit, its temperature."""
    sampling = experiment.sampling
    return PolicyAsking(
        experiment.evidence_view, sampling.max_completion_tokens, samples, sampling.temperature
    )


def policy_procedure(asking: PolicyAsking) -> Procedure:
    """The procedure of a policy: one greedy trace, and the samples beside it."""

    def procedure(question: ClaimInput) -> Steps:
        evidence = question.evidence
        if asking.view is not None:
            evidence = evidence_view(question.claim, evidence, asking.view)
        variables = {"document": evidence, "claim": question.claim}
        greedy = ModelCall("procedure", "prompt", variables, max_tokens=asking.max_tokens)
        warm = replace(greedy, temperature=asking.temperature)
        drawn = [replace(warm, sample=number) for number in range(1, asking.samples + 1)]
        answer, *others = yield from ask(greedy, *drawn)
        return _read(answer, [parse_trace(other.text).verdict for other in others])

    return procedure


def _read(answer: ModelReply, drawn: list[Verdict | None]) -> Verification:
    trace = parse_trace(answer.text)
    notes: dict[str, str | int | float | bool] = {"faults": len(trace.faults)}
    if drawn and trace.verdict is not None:
        notes[AGREEMENT] = sum(one == trace.verdict for one in drawn) / len(drawn)
    return Verification(
        trace.verdict,
        status_of(trace.verdict, answer),
        answer.text,
        trace.cycles,
        trace.opening or "",
        spoken=answer,
        notes=notes,
    )
