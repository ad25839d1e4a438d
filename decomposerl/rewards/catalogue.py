"""The ordered list of rewards: the paper's seven, then further members.

To add one: a file with a function like the others', and one line here. A further member has
weight 0 until a setting gives it one.

Left out deliberately: anything about how they are summed (``rewards.composite``).
"""

from collections.abc import Sequence

from decomposerl.rewards.coverage import coverage
from decomposerl.rewards.diversity import diversity
from decomposerl.rewards.format import format_reward
from decomposerl.rewards.joint import joint
from decomposerl.rewards.necessity import necessity
from decomposerl.rewards.question_count import question_count
from decomposerl.rewards.reward import Case, Reward, Score
from decomposerl.rewards.settings import RewardSettings
from decomposerl.rewards.verification import verification


def _consistency(cases: Sequence[Case], settings: RewardSettings) -> list[Score]:
    """Beyond the paper, and loaded only where a setting gives it a weight."""
    from decomposerl.rewards.consistency import consistency

    return consistency(cases, settings)


REWARDS: tuple[Reward, ...] = (
    Reward("format", "R_fmt", "Format", format_reward, 0, 1),
    Reward("verification", "R_ver", "Verification", verification, 0, 1),
    Reward("question_count", "R_qc", "Question count", question_count, 0, 1),
    Reward("diversity", "R_div", "Diversity", diversity, -1, 1),
    Reward("coverage", "R_cov", "Coverage", coverage, 0, 1, judged=True),
    Reward("necessity", "R_nec", "Necessity", necessity, -1, 1, judged=True),
    Reward("joint", "R_joint", "Joint quality", joint, 0, 1, judged=True),
    Reward("consistency", "R_con", "Consistency", _consistency, 0, 1, weight=0),
)
