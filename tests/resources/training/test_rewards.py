"""The ensemble as TRL's reward functions: computed once, by whole groups."""

import asyncio
import inspect
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from decomposerl.errors import EngineError, RewardError, TrainingError
from decomposerl.rewards.catalogue import REWARDS
from decomposerl.rewards.settings import RewardSettings
from fakes import BagOfWordsEmbedder
from resources.judge.rule_judge import RuleJudge
from resources.judge.scoring import reward_rollouts
from resources.training.data import (
    CLAIM_COLUMNS,
    Completion,
    CompletionReader,
    completion_reader,
    rollouts_of,
)
from resources.training.reward_scoring import (
    RewardColumns,
    RewardScorer,
    SharedRewards,
    reward_functions,
    shuffled_in_groups,
)
from resources.training.rollout_log import RolloutLog
from training_parts import BLOCKS, EXPERIMENT, FailingJudge, tiny_policy

NAMES = [reward.name for reward in REWARDS if reward.weight]
JUDGED = [reward.name for reward in REWARDS if reward.judged]
THOUGHT, WHO, WHEN, _, ALONE, SUPPORTED, _ = BLOCKS
GOOD = (THOUGHT, WHO, THOUGHT, WHEN, THOUGHT, SUPPORTED)


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> CompletionReader:
    from transformers import AutoTokenizer

    folder = tiny_policy(tmp_path_factory.mktemp("base"))
    tokenizer = AutoTokenizer.from_pretrained(folder)
    return completion_reader(tokenizer, [tokenizer.eos_token_id])


def columns(rows: int, *, labelled: bool = True, groups: int = 1) -> dict[str, list[object]]:
    """The data set's columns for ``rows`` completions of ``groups`` claims."""
    names = [f"c{row * groups // rows}" for row in range(rows)]
    one = {
        "claim": "Ilva opened it",
        "evidence": "Ilva opened it. It was 1921.",
        "label": "Supported",
        "n_star": 2,
        "source": "hover",
        "labelled": labelled,
        "prompt_digest": "0" * 64,
        "prompt_tokens": 5,
    }
    return {name: [value] * rows for name, value in one.items()} | {"claim_id": names}


def tokens(reader: CompletionReader, *blocks: str, ended: bool = True) -> list[int]:
    ids = reader.tokenizer.convert_tokens_to_ids(list(blocks))
    return [*ids, reader.tokenizer.eos_token_id] if ended else ids


@dataclass
class Counted:
    """A computation that counts its calls."""

    fault: Exception | None = None
    calls: list[tuple[int, int]] = field(default_factory=list)

    def __call__(self, step: int, sampled: Sequence[Completion]) -> RewardColumns:
        """Every reward is the rollout's index in the batch."""
        self.calls.append((step, len(sampled)))
        if self.fault is not None:
            raise self.fault
        return {name: [float(index) for index in range(len(sampled))] for name in NAMES}


def called_together(
    shared: SharedRewards, reader: CompletionReader, ids: list[list[int]], step: int = 3
) -> list[list[float | None]]:
    """All functions at once, as TRL calls them."""

    async def gathered() -> list[list[float | None]]:
        functions = reward_functions(NAMES, shared, reader)
        state, claims = SimpleNamespace(global_step=step), columns(len(ids))
        calls = [
            function(completion_ids=ids, trainer_state=state, prompts=[], completions=[], **claims)
            for function in functions
        ]
        return await asyncio.gather(*calls)

    return asyncio.run(gathered())


def test_functions_are_coroutines_with_the_rewards_names(reader: CompletionReader):
    """TRL runs coroutine functions together and logs each under its name."""
    functions = reward_functions(NAMES, SharedRewards(Counted()), reader)
    assert NAMES == [function.__name__ for function in functions]
    assert all(map(inspect.iscoroutinefunction, functions))


def test_a_batch_is_computed_once_for_all_functions(reader: CompletionReader):
    """Seven functions at once share one computation; another batch or step makes another."""
    counted = Counted()
    shared = SharedRewards(counted)
    ids = [tokens(reader, *GOOD), tokens(reader, WHO)]
    assert [[0.0, 1.0]] * 7 == called_together(shared, reader, ids)
    assert [(3, 2)] == counted.calls
    called_together(shared, reader, ids, step=4)
    called_together(shared, reader, ids[:1], step=4)
    assert [(3, 2), (4, 2), (4, 1)] == counted.calls


def test_a_fault_reaches_the_trainer(reader: CompletionReader):
    """A computation that fails, fails for every function."""
    shared = SharedRewards(Counted(EngineError("no endpoint answers")))
    with pytest.raises(EngineError, match="no endpoint answers"):
        called_together(shared, reader, [tokens(reader, WHO)])


def test_rewards_computed_elsewhere_are_taken(reader: CompletionReader):
    """Rewards of the main one of several processes are not computed again."""
    counted = Counted()
    shared = SharedRewards(counted)
    ids = [tokens(reader, WHO)]
    shared.put(3, reader.read(columns(1), ids), {name: [0.5] for name in NAMES})
    assert [[0.5]] * 7 == called_together(shared, reader, ids)
    assert [] == counted.calls


def test_tokens_are_read_back_as_the_policy_wrote_them(reader: CompletionReader):
    """Tags stay, end and padding go; without an end token a completion is truncated."""
    ids = [tokens(reader, *GOOD), tokens(reader, *GOOD, ended=False), []]
    whole, cut, empty = reader.read(columns(3), ids)
    assert "".join(GOOD) == "".join(whole.text.split("\n")) == cut.text
    assert [False, True, True] == [whole.truncated, cut.truncated, empty.truncated]
    assert set(CLAIM_COLUMNS) <= set(Completion.__slots__)


def test_a_tokenizer_that_drops_tags_is_refused(tmp_path: Path):
    """Tags that are special tokens would vanish from every trace, and format would be 0."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(tiny_policy(tmp_path))
    tokenizer.add_special_tokens({"additional_special_tokens": ["<think>"]})
    with pytest.raises(TrainingError, match="special tokens"):
        completion_reader(tokenizer, [tokenizer.eos_token_id])


def test_groups_must_be_whole(reader: CompletionReader):
    """A part of a group is refused: its majority is another one."""
    batch = reader.read(columns(3), [tokens(reader, WHO)] * 3)
    assert [0, 1, 2] == [rollout.number for rollout in rollouts_of(batch, 3)]
    with pytest.raises(TrainingError, match="'c0' has 3 rollouts in this batch, not 4"):
        rollouts_of(batch, 4)


def test_what_does_not_count_is_none(reader: CompletionReader, tmp_path: Path):
    """No label: no verification. A ruling missing: that reward is None for the whole group."""
    ids = [tokens(reader, *GOOD), tokens(reader, WHO), tokens(reader, ALONE)] * 2
    batch = reader.read(columns(6, labelled=False, groups=2), ids)
    judge = FailingJudge("answerability")
    log = RolloutLog(tmp_path, "key", 1)
    recipe = replace(EXPERIMENT, grpo=replace(EXPERIMENT.grpo, group_size=3))
    scorer = RewardScorer(recipe, judge, BagOfWordsEmbedder(), log, 40)
    rewards = scorer.training(0, batch)
    assert (None,) * 6 == rewards["verification"]
    assert [None] * 3 == list(rewards["joint"][:3])
    assert None not in rewards["coverage"]
    refusing = replace(recipe, rewards=RewardSettings(failures="raise"))
    strict = RewardScorer(refusing, judge, BagOfWordsEmbedder(), log, 40)
    with pytest.raises(RewardError):
        strict.training(0, batch)


def test_a_runaway_trace_is_judged_on_nothing(reader: CompletionReader):
    """Above the limit no call is made and judged rewards are 0; the others see the trace."""
    batch = reader.read(columns(2), [tokens(reader, *GOOD), tokens(reader, *GOOD * 2)])
    rollouts = rollouts_of(batch, 2)
    whole = reward_rollouts(rollouts, RuleJudge(), BagOfWordsEmbedder(), RewardSettings())
    capped = reward_rollouts(rollouts, RuleJudge(), BagOfWordsEmbedder(), RewardSettings(), 2)
    assert {0} == set(capped.judge_calls["rollout"])
    for name in NAMES:
        first, second = capped.rewards.counted[name]
        assert whole.rewards.counted[name][0] == first
        assert second == (0.0 if name in JUDGED else whole.rewards.counted[name][1])


def test_shuffling_moves_whole_vectors_within_groups(reader: CompletionReader):
    """The control keeps each group's reward vectors and ties them to other rollouts."""
    batch = reader.read(columns(8, groups=2), [tokens(reader, WHO)] * 8)
    values: RewardColumns = {"a": list(range(8)), "b": [value * 10.0 for value in range(8)]}
    rewards = [shuffled_in_groups(values, batch, seed=1, step=step) for step in range(6)]
    for one in rewards:
        assert [10.0 * value for value in one["a"] if value is not None] == one["b"]
        assert set(range(4)) == set(one["a"][:4])
    assert rewards[0] == shuffled_in_groups(values, batch, seed=1, step=0)
    assert 1 < len({tuple(one["a"]) for one in rewards})
