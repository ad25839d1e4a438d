"""What the policy reads and its completions earn."""

import hashlib
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

from chat_served import SoundServer, client, stored_texts
from decomposerl.errors import ConfigError, EngineError, RewardError, TrainingError
from decomposerl.judge.call import Judge
from decomposerl.rewards.catalogue import REWARDS
from decomposerl.rewards.scoring import reward_rollouts
from decomposerl.rewards.settings import RewardSettings, is_labelled
from decomposerl.training.experiment import EvidenceView, HeldOut
from fakes import BagOfWordsEmbedder
from fault_server import HANGING, UNKNOWN_KEY, Answer, FaultServer
from resources.judge.chat_judge import ChatJudge, load_judge_prompts
from resources.judge.rule_judge import RuleJudge
from resources.store.prompts import load_prompt
from resources.training.data import (
    CLAIM_COLUMNS,
    Completion,
    CompletionReader,
    Prompts,
    completion_reader,
    held_out_prompts,
    policy_prompt,
    rollouts_of,
    training_prompts,
)
from resources.training.process import TrainingRun
from resources.training.reward_scoring import (
    RewardColumns,
    RewardScorer,
    reward_functions,
    shuffled_in_groups,
)
from resources.training.rollout_log import RolloutLog
from training_parts import BLOCKS, EXPERIMENT, FailingJudge, held_out_file, run_of

NAMES = [reward.name for reward in REWARDS if reward.weight]
JUDGED = [reward.name for reward in REWARDS if reward.judge_roles]
THOUGHT, WHO, WHEN, _, ALONE, SUPPORTED, _ = BLOCKS
GOOD = (THOUGHT, WHO, THOUGHT, WHEN, THOUGHT, SUPPORTED)


def rendered(run: TrainingRun, *, held_out: bool = False) -> Prompts:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(run.base)
    return (held_out_prompts if held_out else training_prompts)(run, tokenizer)


def test_a_base_may_bring_its_prompt(base: Path, tmp_path: Path):
    """A person's own prompt comes first, then the base's, then the project's."""
    run = run_of(tmp_path / "run", base)
    brought = policy_prompt(run)
    hub = policy_prompt(replace(run, base="Qwen/Qwen2.5-7B-Instruct"))
    assert hub.digest == load_prompt("policy").digest != brought.digest
    (tmp_path / "prompts").mkdir()
    others = replace(run, prompts=str(tmp_path / "prompts"))
    assert brought.digest == policy_prompt(others).digest
    own = tmp_path / "prompts" / "policy.md"
    own.write_text("<!-- section: prompt -->\nRead {document}. Is it so: {claim}?\n", "utf-8")
    assert policy_prompt(others).digest not in {hub.digest, brought.digest}
    own.write_text("<!-- section: prompt -->\n{document}\n", "utf-8")
    with pytest.raises(ConfigError):
        rendered(others)


def test_rows_hold_what_rewards_and_logs_need(base: Path, tmp_path: Path):
    """One a claim; digest and length of the prompt as rendered, which a view alone shortens."""
    run = run_of(tmp_path / "run", base, supervision=0.5)
    rows = rendered(run).rows
    claims = pl.read_parquet(run.claims)
    assert claims["claim_id"].to_list() == [row["claim_id"] for row in rows]
    assert [is_labelled(claim, 0.5) for claim in claims["claim"]] == [
        row["labelled"] for row in rows
    ]
    for row, claim in zip(rows, claims.iter_rows(named=True), strict=True):
        text = f"<|im_start|> {claim['evidence']} {claim['claim']} <|im_end|> <|im_start|>"
        assert hashlib.sha256(text.encode()).hexdigest() == row["prompt_digest"]
        assert len(row["prompt_ids"]) == row["prompt_tokens"] > 0
        assert claim["label"] not in row["prompt"][0]["content"]
    dataset = rendered(run).dataset()
    assert 6 == len(dataset)
    assert "prompt_ids" not in dataset.column_names
    whole = rendered(run_of(tmp_path / "run", base)).rows[0]
    view = EvidenceView(most_sentences=1)
    part = rendered(run_of(tmp_path / "run", base, evidence_view=view)).rows[0]
    assert whole["evidence"] == part["evidence"]
    assert whole["evidence"] in whole["prompt"][0]["content"]
    assert len(part["prompt"][0]["content"]) < len(whole["prompt"][0]["content"])


def test_held_out_claims_are_labelled_and_not_trained_on(base: Path, tmp_path: Path):
    """Whatever the share of supervision, their labels are known; a training claim is none."""
    run = run_of(tmp_path / "run", base, supervision=0.0, held_out_claims=HeldOut(claims=2))
    rows = rendered(run, held_out=True).rows
    assert [True, True] == [row["labelled"] for row in rows]
    assert ["held0", "held1"] == [row["claim_id"] for row in rows]
    trained_on = pl.read_parquet(run.claims).select("claim_id").head(1)
    pool = pl.read_parquet(held_out_file(tmp_path / "pool.parquet", 3))
    leaked = pool.with_columns(
        claim_id=pl.when(pl.int_range(pl.len()) == 0)
        .then(pl.lit(trained_on["claim_id"][0]))
        .otherwise("claim_id")
    )
    leaked.write_parquet(tmp_path / "pool.parquet")
    found = rendered(replace(run, held_out=tmp_path / "pool.parquet"), held_out=True).rows
    assert {"held1", "held2"} == {row["claim_id"] for row in found}
    nothing = run_of(tmp_path / "none", base)
    assert Prompts((), 0) == rendered(nothing, held_out=True)


@pytest.fixture(scope="module")
def reader(base: Path) -> CompletionReader:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(base)
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


def test_a_reward_function_gives_the_column_of_its_name():
    """Of the latest batch: one function for each reward, whatever else TRL passes."""
    rewards: dict[str, list[float | None]] = {}
    functions = reward_functions(NAMES, rewards)
    assert NAMES == [function.__name__ for function in functions]
    for batch in ([0.0, None], [1.0]):
        rewards |= {name: [*batch, float(row)] for row, name in enumerate(NAMES)}
        given = [function(completion_ids=[], prompts=[]) for function in functions]
        assert [[*batch, float(row)] for row in range(len(NAMES))] == given


def test_tokens_are_read_back_as_the_policy_wrote_them(reader: CompletionReader, base: Path):
    """Tags stay, end and padding go; a tokenizer whose special tokens they are is refused."""
    ids = [tokens(reader, *GOOD), tokens(reader, *GOOD, ended=False), []]
    whole, cut, empty = reader.read(columns(3), ids)
    assert "".join(GOOD) == "".join(whole.text.split("\n")) == cut.text
    assert [False, True, True] == [whole.truncated, cut.truncated, empty.truncated]
    assert set(CLAIM_COLUMNS) <= set(Completion.__slots__)
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(base)
    tokenizer.add_special_tokens({"additional_special_tokens": ["<think>"]})
    with pytest.raises(TrainingError, match="special tokens"):
        completion_reader(tokenizer, [tokenizer.eos_token_id])


def test_groups_must_be_whole(reader: CompletionReader):
    """A part of a group is refused; the control ties its reward vectors to other rollouts."""
    batch = reader.read(columns(3), [tokens(reader, WHO)] * 3)
    assert [0, 1, 2] == [rollout.number for rollout in rollouts_of(batch, 3)]
    with pytest.raises(TrainingError, match="'c0' has 3 rollouts in this batch, not 4"):
        rollouts_of(batch, 4)
    batch = reader.read(columns(8, groups=2), [tokens(reader, WHO)] * 8)
    values: RewardColumns = {"a": list(range(8)), "b": [value * 10.0 for value in range(8)]}
    rewards = [shuffled_in_groups(values, batch, seed=1, step=step) for step in range(6)]
    for one in rewards:
        assert [10.0 * value for value in one["a"] if value is not None] == one["b"]
        assert set(range(4)) == set(one["a"][:4])
    assert rewards[0] == shuffled_in_groups(values, batch, seed=1, step=0)
    assert 1 < len({tuple(one["a"]) for one in rewards})


def test_what_does_not_count_is_none(reader: CompletionReader, tmp_path: Path):
    """No label or ruling: None, for a whole group. Above the limit the judged and compared lose."""
    ids = [tokens(reader, *GOOD), tokens(reader, WHO), tokens(reader, ALONE)] * 2
    batch = reader.read(columns(6, labelled=False, groups=2), ids)
    judge = FailingJudge("answerability")
    log = RolloutLog(tmp_path, "key", 1)
    recipe = replace(EXPERIMENT, grpo=replace(EXPERIMENT.grpo, group_size=3))
    scorer = RewardScorer(recipe, judge, BagOfWordsEmbedder(), log, 40)
    rewards = scorer.training(0, batch)
    assert [None] * 6 == rewards["verification"]
    assert [None] * 3 == list(rewards["joint"][:3])
    assert None not in rewards["coverage"]
    refusing = replace(recipe, rewards=RewardSettings(failures="raise"))
    strict = RewardScorer(refusing, judge, BagOfWordsEmbedder(), log, 40)
    with pytest.raises(RewardError):
        strict.training(0, batch)
    batch = reader.read(columns(2), [tokens(reader, *GOOD), tokens(reader, *GOOD * 2)])
    rollouts = rollouts_of(batch, 2)
    whole = reward_rollouts(rollouts, RuleJudge(), BagOfWordsEmbedder(), RewardSettings())
    capped = reward_rollouts(rollouts, RuleJudge(), BagOfWordsEmbedder(), RewardSettings(), 2)
    assert {0} == set(capped.judge_calls["rollout"])
    for name in NAMES:
        first, second = capped.counted[name]
        assert whole.counted[name][0] == first
        worst = {"diversity": -1.0} | dict.fromkeys(JUDGED, 0.0)
        assert second == worst.get(name, whole.counted[name][1])


# Judging while others are being sampled


def scorer_of(judge: Judge, folder: Path) -> RewardScorer:
    """Of groups of one."""
    recipe = replace(EXPERIMENT, grpo=replace(EXPERIMENT.grpo, group_size=1))
    return RewardScorer(recipe, judge, BagOfWordsEmbedder(), RolloutLog(folder, "key", 1), 40)


def until(condition: Callable[[], bool]) -> None:
    """Wait for it, some seconds at most."""
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


def test_a_rollout_is_judged_while_another_waits(reader: CompletionReader, tmp_path: Path):
    """One whose replies are slow holds no other up; values, calls and replies are the same."""
    batch = reader.read(columns(2, groups=2), [tokens(reader, WHO), tokens(reader, WHEN)])
    slow = [Answer(delay_s=1.5)] * 3  # the first's verdict, and its calls about the document
    with SoundServer(slow) as served, client(served.url, tmp_path / "early") as chat:
        scorer = scorer_of(ChatJudge(chat, load_judge_prompts()), tmp_path / "a")
        scorer.begin(batch[0])
        until(lambda: len(served.asked) == served.in_flight == 3)
        scorer.begin(batch[1])
        until(lambda: (len(served.asked), served.in_flight) == (3 + 4, 3))
        early, kept = scorer.training(0, batch), sorted(stored_texts(chat))
    with SoundServer() as plain, client(plain.url, tmp_path / "late") as chat:
        inner = ChatJudge(chat, load_judge_prompts())
        judge: Any = SimpleNamespace(engine=inner.engine, judge=inner.judge)  # begins nothing
        assert early == scorer_of(judge, tmp_path / "b").training(0, batch)
        assert kept == sorted(stored_texts(chat))
    assert sorted(served.prompts) == sorted(plain.prompts)


def test_what_ends_the_judging_ends_what_was_begun(reader: CompletionReader, tmp_path: Path):
    """A wrong key is reported as without early calls, and a closed client does not wait."""
    batch = reader.read(columns(2, groups=2), [tokens(reader, WHO), tokens(reader, WHEN)])
    for answer in (UNKNOWN_KEY, HANGING):
        with FaultServer(usual=answer) as served, client(served.url) as chat:
            scorer = scorer_of(ChatJudge(chat, load_judge_prompts()), tmp_path)
            scorer.begin(batch[0])
            if answer is UNKNOWN_KEY:
                with pytest.raises(EngineError, match="401"):
                    scorer.training(0, batch)
            until(lambda: len(served.asked) >= 3)
            started = time.monotonic()
        scorer._threads.shutdown()
        assert time.monotonic() - started < 10
