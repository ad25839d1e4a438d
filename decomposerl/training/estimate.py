"""Estimates of a training run's steps, rollouts, judge calls, tokens, disk space and hours.

Judge calls are those of rollouts that ask as many questions as the silver decomposition has
(paper, section 2.5), none of them repeated. A policy may ask more.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from decomposerl.judge.call import Task
from decomposerl.judge.distillation import heads_of
from decomposerl.rewards.scoring import active_rewards
from decomposerl.training.experiment import Experiment, Grpo, steps_of

SECONDS_AN_HOUR = 3_600
_STORED_A_CALL = 600  # bytes of a judge call in the tables and the cache, compressed
_STORED_A_TOKEN = 2  # bytes of a completion's token in the rollout log, compressed
_ADAPTER_BYTES = 4
_THOUGHT = 880.0  # of a judge that thinks: assumed, 1,000 with its ruling
_STATE_COPIES = 3  # a checkpoint holds the adapter and AdamW's two moments


@dataclass(frozen=True, slots=True)
class ClaimFacts:
    """Number of training claims and means over them, in the policy's tokens.

    ``questions`` is the mean of n*, ``evidence_tokens`` and ``claim_tokens`` mean lengths.
    """

    claims: int
    questions: float
    evidence_tokens: float
    claim_tokens: float


PAPER_CLAIMS = ClaimFacts(5_464, 2.63, 1_000.0, 30.0)
"""The paper's final set (section 2.6): its size and mean n*. Lengths are assumed: its median is
about 500 tokens, and 464 claims have 4,700 on average."""


@dataclass(frozen=True, slots=True)
class JudgeTokens:
    """Lengths in tokens: of a question, an answer, the prompt around them, a reply.

    ``around`` is the longest of the four prompts (words times 1.3, up to the next ten; a test
    counts them). The others are assumed; the reply is a ruling with reasons in a few sentences,
    without a thought before it.
    """

    question: float = 20.0
    answer: float = 40.0
    around: float = 280.0
    reply: float = 120.0

    def thinking(self, most: int = 0) -> "JudgeTokens":
        """Of a model that thinks, for at most ``most`` tokens (0: as long as it likes)."""
        thought = min(_THOUGHT, most or _THOUGHT)
        return replace(self, reply=self.reply + thought)


TINY_JUDGE_TOKENS = JudgeTokens(around=0.0, reply=0.0)
"""A tiny judge reads no prompt around the texts and writes no reply."""


@dataclass(frozen=True, slots=True)
class RunEstimate:
    """What a run takes. ``hours`` is None where a step's seconds are unknown.

    ``prompts`` and ``completions`` are those that train, ``held_out`` the completions of held-out
    claims, ``adapters`` those that the run writes. Questions, calls and hours are of both.
    """

    steps: int
    prompts: int
    completions: int
    held_out: int
    adapters: int
    questions: int
    judge_calls: int
    judge_prompt_tokens: int
    judge_completion_tokens: int
    hours: float | None


def batch_problems(grpo: Grpo, processes: int = 1) -> list[str]:
    """One sentence per batch size that does not divide; empty where all do."""
    at_once = grpo.per_device_batch * processes
    wrong = []
    if grpo.group_size < 2:  # noqa: PLR2004 - two is the least group that can be compared
        wrong.append(f"a group of {grpo.group_size} has nothing to compare")
    if grpo.global_batch % at_once:
        wrong.append(
            f"the global batch of {grpo.global_batch} is no multiple of {grpo.per_device_batch} "
            f"a device on {processes} device{'s' * (processes != 1)}"
        )
    if grpo.global_batch % grpo.group_size:
        wrong.append(
            f"the global batch of {grpo.global_batch} holds no whole number of groups of "
            f"{grpo.group_size}"
        )
    return wrong


def calls_per_rollout(experiment: Experiment, questions: float) -> dict[Task, float]:
    """Judge calls by task of a rollout with n ``questions``: 4n + 1 with every reward on.

    Coverage takes one call, and one per question left out; the other tasks one per question.
    Calls that no active reward reads are not made.
    """
    roles = {role for reward in active_rewards(experiment.rewards) for role in reward.judge_roles}
    full = 1.0 if "full" in roles else 0.0
    without = questions if "leave_one_out" in roles else 0.0
    each = questions if "question" in roles else 0.0
    return {
        "coverage": full + without,
        "answerability": each,
        "atomicity": each,
        "correctness": each,
    }


def estimate_run(
    experiment: Experiment,
    facts: ClaimFacts,
    tokens: JudgeTokens | None = None,
    seconds_per_step: float | None = None,
) -> RunEstimate:
    """The estimate of a run. A held-out completion takes the time of one that trains, at most."""
    grpo, steps = experiment.grpo, steps_of(experiment, facts.claims)
    measured = experiment.held_out.measured(steps)
    held_out = measured * experiment.held_out.claims * (experiment.held_out.samples + 1)
    completions = -(-steps // grpo.iterations) * grpo.global_batch
    sampled = completions + held_out
    calls = calls_per_rollout(experiment, facts.questions)
    lengths = tokens or JudgeTokens()
    prompt = sum(
        n * _passes(experiment, task) * _prompt(task, facts, lengths) for task, n in calls.items()
    )
    judge_calls = round(sampled * sum(calls.values()))
    seconds = (steps + held_out / grpo.global_batch) * (seconds_per_step or 0.0)
    return RunEstimate(
        steps=steps,
        prompts=completions // grpo.group_size,
        completions=completions,
        held_out=held_out,
        adapters=max(measured, 2),  # of step 0 and of the end in any case
        questions=round(sampled * facts.questions),
        judge_calls=judge_calls,
        judge_prompt_tokens=round(sampled * prompt),
        judge_completion_tokens=round(judge_calls * lengths.reply),
        hours=None if seconds_per_step is None else seconds / SECONDS_AN_HOUR,
    )


def longest_judge_calls(
    evidence_tokens: Sequence[int],
    completion_tokens: int,
    reply_tokens: int,
    lengths: JudgeTokens | None = None,
) -> list[int]:
    """The context in tokens that the longest judge call about each document may take.

    A call holds the document, the prompt around it, at most a whole completion of the policy
    (question and answer, or all answers), and ``reply_tokens`` of the judge.
    """
    rest = math.ceil((lengths or JudgeTokens()).around) + completion_tokens + reply_tokens
    return [evidence + rest for evidence in evidence_tokens]


def disk_bytes(
    estimate: RunEstimate, adapter_parameters: int, completion_tokens: float, checkpoints: int
) -> Mapping[str, int]:
    """Bytes by use. ``completion_tokens`` is a mean, ``checkpoints`` the number that is kept."""
    adapter = adapter_parameters * _ADAPTER_BYTES
    sampled = estimate.completions + estimate.held_out
    return {
        # One more than is kept: the newest is written before the oldest is removed.
        "checkpoints": (checkpoints + 1) * adapter * _STATE_COPIES,
        "adapters": estimate.adapters * adapter,
        "rollouts": round(sampled * completion_tokens * _STORED_A_TOKEN),
        "judge calls": estimate.judge_calls * _STORED_A_CALL,
    }


def _passes(experiment: Experiment, task: Task) -> int:
    """How often a judge reads the texts of a call: a tiny one once for each head of the task."""
    return len(heads_of(task)) if experiment.judge == "tiny" else 1


def _prompt(task: str, facts: ClaimFacts, lengths: JudgeTokens) -> float:
    """Mean prompt tokens of one call of a task."""
    parts = {
        "coverage": facts.claim_tokens + facts.questions * lengths.answer,
        "answerability": facts.evidence_tokens + lengths.question,
        "atomicity": facts.claim_tokens + lengths.question,
        "correctness": facts.evidence_tokens + lengths.question + lengths.answer,
    }
    return lengths.around + parts[task]
