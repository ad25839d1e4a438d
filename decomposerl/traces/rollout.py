"""One trace with the claim it is about: what rewards and judge look at."""

from dataclasses import dataclass

from decomposerl.traces.trace import Trace, Verdict


@dataclass(frozen=True, slots=True)
class Rollout:
    """One trace of one claim.

    ``group`` names the prompt: rollouts of one group are compared with each other. ``label``
    is None on the unlabelled path. ``n_star`` is the number of silver sub-questions, None
    where there is none. ``truncated`` says that the token budget ended before the trace.
    """

    group: str
    number: int
    claim: str
    evidence: str
    trace: Trace
    label: Verdict | None = None
    n_star: int | None = None
    truncated: bool = False
