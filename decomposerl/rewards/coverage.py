"""Coverage: do the answers alone lead to the verdict (paper, section 3.2, (5))?

    R_cov = 1 if the judge's verdict from claim and answers is the label, else 0

Without a label the group's majority replaces it (section 3.3): of the judge's verdicts from the
answers (the paper's symbols) or, ``votes = policy``, of the policy's own. Truncated rollouts do not
vote, nor do verdicts that a trace may not end with. A tie gives 0. The judge may also rule that the
answers do not suffice. That matches no label of the paper's two; where a claim's label is the
third, it matches if an answer shows what the document leaves open (``readings.matches``), so a
trace that answers nothing is never paid. No answer: 0, without a call. ``grounding = required``
pays the share of answers that the document bears out in place of 1, and ``silence = refutes`` reads
an abstention about a part as a refutation (``rewards.readings``).
"""

from collections import Counter
from collections.abc import Sequence

from decomposerl.rewards.readings import grounded, left_open, matches, verdicts
from decomposerl.rewards.reward import RewardCase, RewardResult, mean
from decomposerl.rewards.settings import RewardSettings
from decomposerl.traces.trace import Verdict


def coverage(cases: Sequence[RewardCase], settings: RewardSettings) -> list[RewardResult]:
    """1 or 0, or the share of grounded answers; null where a ruling that it reads is missing."""
    majority = pseudo_label(cases, settings)
    return [_result(case, majority, settings) for case in cases]


def _result(case: RewardCase, majority: Verdict | None, settings: RewardSettings) -> RewardResult:
    label = case.rollout.label if case.rollout.label is not None else majority
    right = matches(verdicts(case, settings)[0], label, left_open(case, claim=True))
    pays = grounded(case, settings)
    if right is None or None in pays:
        return RewardResult(None, "failed")
    return RewardResult(mean(list(map(bool, pays))) if right and pays else float(right))


def pseudo_label(cases: Sequence[RewardCase], settings: RewardSettings) -> Verdict | None:
    """The verdict with more votes than every other; None for a tie or without votes."""
    votes = Counter(_vote(case, settings) for case in cases if not case.rollout.truncated)
    del votes[None]
    first, second = [*votes.most_common(2), (None, 0), (None, 0)][:2]
    return first[0] if first[1] > second[1] else None


def _vote(case: RewardCase, settings: RewardSettings) -> Verdict | None:
    trace = case.rollout.trace
    if settings.votes == "policy":
        return trace.verdict
    given, _ = verdicts(case, settings)
    if given == "NotEnoughInfo" and not matches(given, given, left_open(case, claim=True)):
        return None
    return given if given in trace.labels else None
