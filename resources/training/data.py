"""Training claims as a data set of prompts.

Takes the claims' Parquet file and a tokenizer, gives one row a claim: the prompt as messages,
which the tokenizer's chat template renders, and what rewards and logs need. The policy may be
shown a part of the evidence; judge and rewards always see all of it. A prompt that is too long
is left out and counted, never cut.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from decomposerl.prompts.policy import policy_messages
from decomposerl.prompts.template import PromptFile
from decomposerl.rewards.supervision import is_labelled
from decomposerl.training.claim_draws import held_out_claims
from decomposerl.training.evidence_view import evidence_view
from decomposerl.training.experiment import Experiment
from resources.store.prompts import load_policy_prompt
from resources.training.batch import CLAIM_COLUMNS
from resources.training.library_types import Dataset, Tokenizer
from resources.training.run import TrainingRun

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Prompts:
    """Rows with ``prompt``, ``prompt_ids`` and ``CLAIM_COLUMNS``; how many were too long."""

    rows: tuple[Row, ...]
    left_out: int

    def dataset(self) -> Dataset:
        """The rows as TRL takes them."""
        from datasets import Dataset

        columns = ("prompt", *CLAIM_COLUMNS)
        return Dataset.from_dict({name: [row[name] for row in self.rows] for name in columns})


def policy_prompt(run: TrainingRun) -> PromptFile:
    """The prompt that the policy answers: a person's own, its base's, or the project's.

    Raises:
        ConfigError: the file is not UTF-8 text or malformed.
    """
    return load_policy_prompt(run.base, run.prompts)


def training_prompts(run: TrainingRun, tokenizer: Tokenizer) -> Prompts:
    """The training claims, in the file's order; labelled by the share s (section 3.3)."""
    return _prompts(pl.read_parquet(run.claims), run, tokenizer, run.experiment.supervision)


def held_out_prompts(run: TrainingRun, tokenizer: Tokenizer) -> Prompts:
    """The held-out claims, all labelled; none where the run has none."""
    wanted = run.experiment.held_out.claims
    if run.held_out is None or not wanted:
        return Prompts((), 0)
    claims = held_out_claims(
        pl.read_parquet(run.held_out),
        pl.read_parquet(run.claims, columns=["claim_id"]),
        count=wanted,
        seed=run.experiment.seed,
    )
    return _prompts(claims, run, tokenizer, 1.0)


def _prompts(
    claims: pl.DataFrame,
    run: TrainingRun,
    tokenizer: Tokenizer,
    share: float,
) -> Prompts:
    prompt = policy_prompt(run)
    shown = [_messages(prompt, row, run.experiment) for row in claims.iter_rows(named=True)]
    texts = [_rendered(tokenizer, messages) for messages in shown]
    found = [
        _row(claim, messages, text, _ids(tokenizer, messages), share)
        for claim, messages, text in zip(claims.iter_rows(named=True), shown, texts, strict=True)
    ]
    most = run.experiment.sampling.max_prompt_tokens
    rows = tuple(row for row in found if row["prompt_tokens"] <= most)
    return Prompts(rows, len(found) - len(rows))


def _messages(prompt: PromptFile, row: Row, experiment: Experiment) -> list[dict[str, str]]:
    evidence = row["evidence"]
    if experiment.evidence_view is not None:
        evidence = evidence_view(row["claim"], evidence, experiment.evidence_view)
    messages = policy_messages(prompt, evidence, row["claim"])
    return [{"role": turn.role, "content": turn.content} for turn in messages]


def _rendered(tokenizer: Tokenizer, messages: Sequence[dict[str, str]]) -> str:
    text: str = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
    return text


def _ids(tokenizer: Tokenizer, messages: Sequence[dict[str, str]]) -> list[int]:
    """The very call that TRL makes, so that lengths are those of the prompts it samples from."""
    rendered = tokenizer.apply_chat_template(
        messages, add_generation_prompt=True, tokenize=True, return_dict=True
    )
    return list(rendered["input_ids"])


def _row(
    claim: Row, messages: list[dict[str, str]], text: str, ids: list[int], share: float
) -> Row:
    kept = {name: claim[name] for name in ("claim_id", "claim", "evidence", "label", "source")}
    return kept | {
        "prompt": messages,
        "prompt_ids": ids,
        "n_star": claim["n_star"],
        "labelled": is_labelled(claim["claim"], share),
        "prompt_digest": hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest(),
        "prompt_tokens": len(ids),
    }
