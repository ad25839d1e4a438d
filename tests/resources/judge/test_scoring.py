"""What a reward declares about itself decides which judge calls and embeddings a batch takes."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from decomposerl.judge.call import JudgeCall, Ruling
from decomposerl.judge.plan import Role, plan
from decomposerl.rewards.catalogue import REWARDS
from decomposerl.rewards.reward import Reward, RewardCase, RewardResult
from decomposerl.rewards.settings import RewardSettings
from fakes import BagOfWordsEmbedder
from resources.judge.rule_judge import RuleJudge
from resources.judge.scoring import reward_rollouts
from reward_parts import rollout

ROLLOUTS = [rollout(3)]
OTHERS_OFF = RewardSettings(weights={reward.name: 0.0 for reward in REWARDS})


@dataclass
class NotingJudge:
    """The rule judge; remembers the calls that it got."""

    calls: list[JudgeCall] = field(default_factory=list)
    engine: str = "noting"

    def judge(self, calls: Sequence[JudgeCall]) -> list[Ruling]:
        """Rulings on a batch."""
        self.calls += calls
        return RuleJudge().judge(calls)


def made_up(cases: Sequence[RewardCase], settings: RewardSettings) -> list[RewardResult]:
    """The number of signals of each kind that are there, as a reward of no use."""
    del settings
    counts = [[one is not None for one in case.signals.answerable].count(True) for case in cases]
    return [RewardResult(float(count)) for count in counts]


@pytest.mark.parametrize(
    "roles", [(), ("full",), ("leave_one_out",), ("question",), ("full", "question")]
)
def test_a_new_reward_gets_exactly_the_calls_that_it_names(roles: tuple[Role, ...]):
    """One line in the list of rewards: its roles are asked about, each call once, no others."""
    reward = Reward("made_up", "R_new", "Made up", made_up, 0, 9, roles)
    planned = plan(ROLLOUTS)
    expected = {planned.calls[use.call] for use in planned.uses if use.role in roles}
    judge, embedder = NotingJudge(), BagOfWordsEmbedder()
    found = reward_rollouts(ROLLOUTS, judge, embedder, OTHERS_OFF, rewards=(*REWARDS, reward))
    assert (expected, len(expected)) == (set(judge.calls), len(judge.calls))
    assert {"made_up": 3.0 if "question" in roles else 0.0} == {
        name: values[0] for name, values in found.rewards.counted.items()
    }
    assert set(roles) == set(found.judge_calls["role"])
    assert [] == embedder.asked


def test_vectors_are_computed_for_a_reward_that_reads_them():
    """Each distinct question is embedded once, and no judge call is made."""
    reward = Reward("made_up", "R_new", "Made up", made_up, 0, 9, reads_vectors=True)
    judge, embedder = NotingJudge(), BagOfWordsEmbedder()
    reward_rollouts(ROLLOUTS, judge, embedder, RewardSettings(), rewards=(reward,))
    assert ([3], []) == (embedder.asked, judge.calls)
