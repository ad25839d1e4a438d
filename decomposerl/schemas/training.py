"""Tables of rewards and training: verdicts of the judge, rewards, rollouts, curves."""

import polars as pl

from decomposerl.table import Column, Table

_S, _I, _F = pl.String(), pl.Int64(), pl.Float64()
_LIST = pl.List(pl.String())

JUDGE_CALLS = Table(
    "judge_calls",
    (
        Column("group", _S, "the prompt whose rollouts are compared with each other"),
        Column("rollout", _I, "number of the rollout in its group"),
        Column("task", _S, "answerability, atomicity, correctness or coverage"),
        Column("role", _S, "full or leave_one_out (coverage), else question"),
        Column("question", _I, "cycle asked about or left out, from 0; null: full", nullable=True),
        Column("call_key", _S, "64 hex digits of SHA-256 over the call; equal calls share it"),
        Column("value", _S, "the ruling, null where the call failed", nullable=True),
        Column("failure", _S, "why there is no ruling, null where there is one", nullable=True),
        Column("engine", _S, "program and model that ruled"),
    ),
    unique=("group", "rollout", "task", "role", "question"),
    row="a ruling of the judge on a trace",
)
REWARDS = Table(
    "rewards",
    (
        Column("run", _S, "run that sampled the rollout; empty outside a run"),
        Column("step", _I, "training step of the run, from 0"),
        Column("group", _S, "the prompt whose rollouts are compared with each other"),
        Column("rollout", _I, "number of the rollout in its group"),
        Column("reward", _S, "name in the catalogue, or total: the weighted sum"),
        Column("question", _I, "cycle the value is about, from 0; null: the trace", nullable=True),
        Column("value", _F, "null where a ruling is missing or it does not apply", nullable=True),
        Column("state", _S, "scored, failed, absent or dropped; a question's finding"),
        Column("weight", _F, "weight of the reward in the total"),
        Column("counted", pl.Boolean(), "whether the trace's value entered the total"),
    ),
    unique=("run", "step", "group", "rollout", "reward", "question"),
    row="a reward of a trace or of one of its questions",
)
ROLLOUTS = Table(
    "rollouts",
    (
        Column("run", _S, "16 hex digits over recipe, claims, base weights and engines"),
        Column("step", _I, "optimizer steps done when it was sampled"),
        Column("split", _S, "train, held_out_sampled or held_out_greedy"),
        Column("group", _S, "claim_id: the rollouts of a claim at a step are compared"),
        Column("rollout", _I, "number of the rollout in its group"),
        Column("attempt", _I, "which start of the run sampled it, from 1"),
        Column("source", _S, "the claim's corpus"),
        Column("claim", _S, "the statement to verify"),
        Column("label", _S, "Supported or Refuted"),
        Column("labelled", pl.Boolean(), "whether the rewards saw the label (section 3.3)"),
        Column("n_star", _I, "number of silver sub-questions"),
        Column("prompt_digest", _S, "64 hex digits of SHA-256 over the rendered prompt"),
        Column("prompt_tokens", _I, "length of the prompt"),
        Column("completion", _S, "all that the policy wrote"),
        Column("completion_tokens", _I, "length of the completion, the end token included"),
        Column("truncated", pl.Boolean(), "whether the token limit ended it"),
        Column("verdict", _S, "Supported, Refuted, or null: none was parsed", nullable=True),
        Column("questions", _I, "complete question-answer pairs"),
        Column("faults", _LIST, "kinds of what is malformed, in order"),
        Column("total", _F, "weighted sum of the counted rewards; null: none", nullable=True),
    ),
    unique=("run", "step", "split", "group", "rollout"),
    row="a trace that the policy sampled in training",
)
CURVES = Table(
    "curves",
    (
        Column("run", _S, "as in rollouts"),
        Column("experiment", _S, "name of the recipe"),
        Column("step", _I, "optimizer steps done"),
        Column("split", _S, "train, held_out_sampled or held_out_greedy"),
        Column("measure", _S, "a reward, total, or one of training/curves.py"),
        Column("mean", _F, "over the step's rollouts; null where none has it", nullable=True),
        Column("spread", _F, "standard deviation over them, where it has one", nullable=True),
        Column("rows", _I, "rollouts or groups that it is the mean of"),
    ),
    unique=("run", "step", "split", "measure"),
    row="a measure at a training step",
)
