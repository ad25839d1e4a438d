"""The two clients of docs/how-to/serve-rewards.md against the service.

TRL is the installed one; of verl, the test has the form of the data and of the calls that its
source defines (0.9.0: ``RewardLoopWorker``, ``DataProto``, ``AgentLoopWorker._compute_score``).
"""

import asyncio
import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from dagster_project.reward_server import RewardService
from decomposerl.judge.call import Judge, JudgeCall, Ruling, Task
from decomposerl.rewards.settings import RewardSettings
from project import ROOT
from resources.judge.rule_judge import RuleJudge
from resources.training.data import CompletionReader, completion_reader
from reward_serving import (
    Json,
    body,
    example,
    imports,
    service,
    serving,
)
from training_parts import BLOCKS, tiny_policy

PAGE = (ROOT / "docs/how-to/serve-rewards.md").read_text("utf-8")
THOUGHT, WHO, WHEN, _, ALONE, SUPPORTED_BLOCK, REFUTED_BLOCK = BLOCKS
ROLLOUTS = (
    ((THOUGHT, WHO, THOUGHT, WHEN, THOUGHT, SUPPORTED_BLOCK), True),
    ((THOUGHT, WHO, THOUGHT, REFUTED_BLOCK), True),
    ((ALONE,), True),
    ((THOUGHT, WHEN, THOUGHT), False),  # cut off
)
SIZE = len(ROLLOUTS)
CLAIMS = (
    {"claim": "Ilva opened it", "evidence": "Ilva opened it. It was 1921.", "n_star": 2},
    {"claim": "Torbeck has a river", "evidence": "The river was in Torbeck.", "n_star": 1},
)
LABELS = ("Supported", None)


@dataclass
class Losing:
    """The rules, which lose rulings of some tasks on the first claim."""

    lost: tuple[Task, ...] = ()
    asked: list[int] = field(default_factory=list)
    engine: str = "losing"

    def judge(self, calls: Sequence[JudgeCall]) -> list[Ruling]:
        """Rulings on a batch."""
        self.asked.append(len(calls))
        first = CLAIMS[0]["evidence"]
        lost = [call.task in self.lost and call.document == first for call in calls]
        ruled = zip(lost, RuleJudge().judge(calls), strict=True)
        return [Ruling(None, "timeout") if gone else ruling for gone, ruling in ruled]


@dataclass
class Tidying:
    """A tokenizer that takes spaces out of a text, unless it is asked not to."""

    inner: Any

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - the inner one's
        """The rest is the inner one's."""
        return getattr(self.inner, name)

    def decode(self, ids: list[int], **options: bool) -> str:
        """The text of tokens."""
        tidies = options.pop("clean_up_tokenization_spaces", True)
        text = self.inner.decode(ids, clean_up_tokenization_spaces=False, **options)
        return text.replace(" ", "") if tidies else str(text)


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> CompletionReader:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(tiny_policy(tmp_path_factory.mktemp("base")))
    return completion_reader(tokenizer, [tokenizer.eos_token_id])


def tokens(reader: CompletionReader) -> list[list[int]]:
    """The rollouts of one claim."""
    end = [reader.tokenizer.eos_token_id]
    ids = [reader.tokenizer.convert_tokens_to_ids(list(blocks)) for blocks, _ in ROLLOUTS]
    return [one + end * ended for one, (_, ended) in zip(ids, ROLLOUTS, strict=True)]


def doubled(judge: Judge) -> RewardService:
    return service(judge, settings=RewardSettings({"joint": 2.0}))


def directly(one: RewardService, reader: CompletionReader) -> list[Json]:
    """What the service itself says of two claims, the second without a label."""
    ends = [ids[-1] in reader.ends for ids in tokens(reader)]
    rollouts = [
        {"group": str(number), "rollout": place, **claim, "label": label}
        | {"trace": reader.text(ids), "truncated": not ends[place]}
        for number, (claim, label) in enumerate(zip(CLAIMS, LABELS, strict=True))
        for place, ids in enumerate(tokens(reader))
    ]
    status, reply = one.answer(body(*rollouts))
    assert 200 == status, reply
    return list(reply["rollouts"])


def counted(replies: Sequence[Json], name: str) -> list[float]:
    """What counts of a reward, NaN where it does not."""
    values = [one["rewards"][name]["counted"] for one in replies]
    return [math.nan if one is None else one for one in values]


def trl_trainer(functions: Sequence[object], names: Sequence[str]) -> SimpleNamespace:
    """What ``GRPOTrainer._calculate_rewards`` reads of its trainer."""
    return SimpleNamespace(
        accelerator=SimpleNamespace(device="cpu", is_main_process=True),
        args=SimpleNamespace(report_to=[]),
        state=SimpleNamespace(global_step=3),
        reward_funcs=functions,
        reward_func_names=names,
        reward_processing_classes=[None] * len(names),
        **dict.fromkeys(("environments", "_log_completion_extra", "_log_metric")),
    )


@pytest.mark.parametrize("judge", [Losing(), Losing(("answerability",))])
def test_trl_gets_the_services_values(judge: Losing, reader: CompletionReader):
    """TRL's own summing of our functions gives our totals, nulls and weights included."""
    from trl import GRPOTrainer

    known = directly(doubled(judge), reader)
    inputs = [
        {"prompt": "Verify it.", "label": label, "claim_id": "x", **claim}
        for claim, label in zip(CLAIMS, LABELS, strict=True)
        for _ in range(SIZE)
    ]
    with serving(doubled(judge)) as url:
        rewards = example("trl_rewards").RewardServer(url, Tidying(reader.tokenizer), SIZE)
        functions = rewards.functions()
        names = [one.__name__ for one in functions]
        trainer = trl_trainer(functions, names)
        before = len(judge.asked)
        texts = ["Verify it."] * len(inputs)
        twice = tokens(reader) * 2
        calculated = GRPOTrainer._calculate_rewards(trainer, inputs, texts, texts, twice)
        assert 1 == len(judge.asked) - before, "one request for all functions"
    assert list(known[0]["rewards"]) == names
    for column, name in enumerate(names):
        values = calculated[:, column].tolist()
        assert counted(known, name) == pytest.approx(values, nan_ok=True), name
    lost = torch.isnan(calculated[:, names.index("joint")]).tolist()
    assert [bool(judge.lost)] * SIZE + [False] * SIZE == lost
    summed = (calculated * torch.tensor(rewards.weights)).nansum(dim=1).tolist()
    assert [one["total"] for one in known] == pytest.approx(summed)


PADDING = 3


def sampled(ids: list[int], claim: int) -> list[Any]:
    """One rollout, as ``_compute_score`` of the agent loop makes it: a batch of one, padded."""
    prompt = [1, 1]
    mask = [1] * (len(prompt) + len(ids)) + [0] * PADDING
    batch = {
        "prompts": torch.tensor(prompt),
        "responses": torch.tensor([*ids, *[0] * PADDING]),
        "attention_mask": torch.tensor(mask),
    }
    row = {
        "uid": f"uid {claim}",
        "data_source": "decomposerl",
        "reward_model": {"style": "rule", "ground_truth": LABELS[claim]},
        "extra_info": {**CLAIMS[claim], "split": "train", "index": claim},
    }
    return [SimpleNamespace(batch=batch, non_tensor_batch=row)]


def manager(url: str, reader: CompletionReader) -> Any:  # noqa: ANN401 - a class of the example
    """The reward manager, as ``load_reward_manager`` makes it."""
    rollout = {"n": SIZE, "val_kwargs": {"n": 1}}
    config = {"actor_rollout_ref": {"rollout": rollout}, "decomposerl": {"url": url}}
    return example("verl_rewards").GroupRewards(
        config=config,
        tokenizer=Tidying(reader.tokenizer),
        compute_score=len,
        reward_router_address=None,
        reward_model_tokenizer=None,
    )


async def scored_at_once(one: Any, *batch: list[SimpleNamespace]) -> list[Any]:  # noqa: ANN401 - the same
    """All rollouts at once, as the reward loop gets them from the agent loops."""
    return await asyncio.gather(*map(one.run_single, batch), return_exceptions=True)


@pytest.mark.parametrize("judge", [Losing(), Losing(("answerability",))])
def test_verl_gets_the_services_totals(judge: Losing, reader: CompletionReader):
    """Rollouts of two groups come mixed; each gets its total, and NaN for what does not count."""
    known = directly(doubled(judge), reader)
    first, second = ([sampled(ids, claim) for ids in tokens(reader)] for claim in (0, 1))
    mixed = [one for pair in zip(first, second, strict=True) for one in pair]
    before = len(judge.asked)
    with serving(doubled(judge)) as url:
        replies = asyncio.run(scored_at_once(manager(url, reader), *mixed))
    assert 2 == len(judge.asked) - before, "one request for each group"
    in_order = replies[::2] + replies[1::2]
    assert [one["total"] for one in known] == [one["reward_score"] for one in in_order]
    for name in known[0]["rewards"]:
        values = [one["reward_extra_info"][name] for one in in_order]
        assert counted(known, name) == pytest.approx(values, nan_ok=True), name


def test_the_page_shows_what_the_server_says():
    """Request, reply, refusal and health's fields; its clients need the standard library alone."""
    from resources.embedder.minilm import MiniLM

    blocks = re.findall(r"^```json\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    request, reply, bad = map(json.loads, blocks)
    one = RewardService(RuleJudge(), MiniLM(), RewardSettings())
    _, said = one.answer(json.dumps(request).encode())
    assert rounded(reply) == rounded(said)
    request["rollouts"][0]["label"] = "true"
    status, refused = one.answer(json.dumps(request).encode())
    assert (400, bad) == (status, refused)
    (health,) = [part for part in PAGE.split("\n\n") if part.startswith("`GET /v1/health`")]
    assert list(one.health()) == re.findall(r"`([a-z_]+)`", health)
    assert [set(), set()] == [imports(name) for name in ("trl_rewards", "verl_rewards")]


def rounded(value: object) -> object:
    """Numbers as the page has them: vectors differ a little between processors."""
    return json.loads(json.dumps(value), parse_float=lambda digits: round(float(digits), 3))
