"""The pseudo-label of an unlabelled claim: the majority of its rollouts (paper, section 3.3).

Whose verdicts vote is a setting: the judge's reconstructions from the answers (the paper's
symbols), or the policy's own. Truncated rollouts do not vote, nor do verdicts that a trace may not
end with: two-way, "not enough information". Three-way, the judge's counts where an answer shows
what is open (``readings.matches``).
"""

from collections import Counter
from collections.abc import Sequence

from decomposerl.rewards.readings import matches, shows_open, verdict
from decomposerl.rewards.reward import RewardCase
from decomposerl.rewards.settings import RewardSettings
from decomposerl.traces.trace import Verdict


def pseudo_label(cases: Sequence[RewardCase], settings: RewardSettings) -> Verdict | None:
    """The verdict with more votes than every other; None for a tie or without votes."""
    votes = Counter(
        vote
        for case in cases
        if not case.rollout.truncated and (vote := _vote(case, settings)) is not None
    )
    first, second = [*votes.most_common(2), (None, 0), (None, 0)][:2]
    return first[0] if first[1] > second[1] else None


def _vote(case: RewardCase, settings: RewardSettings) -> Verdict | None:
    trace = case.rollout.trace
    if settings.votes == "policy":
        return trace.verdict
    given = verdict(case, settings)
    if given == "NotEnoughInfo" and given in trace.labels:
        return given if matches(given, given, shows_open(case)) else None
    return given if given in trace.labels else None
