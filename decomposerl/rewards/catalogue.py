"""The ordered list of rewards: the paper's seven, then further members.

To add one: a file with its function, and one line here, which also lists the roles of the judge
calls that it reads. A member beyond the paper's seven has weight 0 unless the settings give one.
"""

from decomposerl.rewards.coverage import coverage
from decomposerl.rewards.diversity import diversity
from decomposerl.rewards.format import format_reward, question_count, verification
from decomposerl.rewards.joint import joint
from decomposerl.rewards.necessity import necessity
from decomposerl.rewards.own import own
from decomposerl.rewards.quotes import quotes
from decomposerl.rewards.reward import Reward

REWARDS: tuple[Reward, ...] = (
    Reward("format", "R_fmt", "Format", format_reward, 0, 1),
    Reward("verification", "R_ver", "Verification", verification, 0, 1),
    Reward("question_count", "R_qc", "Question count", question_count, 0, 1),
    Reward("diversity", "R_div", "Diversity", diversity, -1, 1, reads_vectors=True),
    Reward("coverage", "R_cov", "Coverage", coverage, 0, 1, ("full",)),
    Reward("necessity", "R_nec", "Necessity", necessity, -1, 1, ("full", "leave_one_out")),
    Reward("joint", "R_joint", "Joint quality", joint, 0, 1, ("question",)),
    Reward("quotes", "R_quo", "Verbatim quotes", quotes, 0, 1, weight=0),
    Reward("own", "R_own", "Your own", own, -1, 1, weight=0),
)
