"""Training data: claims become prompts, and sampled tokens become rollouts.

A prompt that is too long is left out and counted, never truncated. The policy may see a part of
the evidence; judge and rewards always see all of it. Text is rebuilt from the tokens, because the
tokenizer's reply parser, which TRL would use, may remove thoughts.
"""

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from decomposerl.errors import TrainingError
from decomposerl.prompts.policy import policy_messages
from decomposerl.prompts.template import PromptFile, PromptSettings
from decomposerl.rewards.settings import is_labelled
from decomposerl.schemas import LABELS
from decomposerl.traces.grammar import parse_trace
from decomposerl.traces.rollout import Rollout
from decomposerl.traces.trace import Verdict
from decomposerl.training.claim_draws import held_out_claims
from decomposerl.training.evidence_view import evidence_view
from decomposerl.training.experiment import Experiment
from resources.store.integrity import read_parquet
from resources.store.prompts import load_policy_prompt
from resources.training.process import TrainingRun

if TYPE_CHECKING:
    from datasets import Dataset
    from transformers import PreTrainedTokenizerBase

CLAIM_COLUMNS = (
    "claim_id",
    "claim",
    "evidence",
    "label",
    "n_star",
    "source",
    "labelled",
    "prompt_digest",
    "prompt_tokens",
)
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Prompts:
    """Rows with ``prompt``, ``prompt_ids`` and ``CLAIM_COLUMNS``; how many were too long."""

    rows: tuple[Row, ...]
    left_out: int

    def dataset(self) -> "Dataset":
        """The rows in the form that TRL takes."""
        from datasets import Dataset

        columns = ("prompt", *CLAIM_COLUMNS)
        return Dataset.from_dict({name: [row[name] for row in self.rows] for name in columns})


def policy_prompt(run: TrainingRun) -> PromptFile:
    """The policy's prompt: your own, its base's, or the project's.

    Raises:
        ConfigError: the file is not UTF-8 text or malformed.
    """
    wording = PromptSettings(run.experiment.verdict_rule)
    return load_policy_prompt(run.base, run.prompts, wording)


def training_prompts(run: TrainingRun, tokenizer: "PreTrainedTokenizerBase") -> Prompts:
    """The training claims, in the file's order; labelled by the share s (section 3.3)."""
    return _prompts(read_parquet(run.claims), run, tokenizer, run.experiment.supervision)


def held_out_prompts(run: TrainingRun, tokenizer: "PreTrainedTokenizerBase") -> Prompts:
    """The held-out claims, all labelled; none where the run has none."""
    wanted = run.experiment.held_out.claims
    if run.held_out is None or not wanted:
        return Prompts((), 0)
    claims = held_out_claims(
        read_parquet(run.held_out),
        read_parquet(run.claims, ["claim_id"]),
        count=wanted,
        seed=run.experiment.seed,
    )
    return _prompts(claims, run, tokenizer, 1.0)


def _prompts(
    claims: pl.DataFrame, run: TrainingRun, tokenizer: "PreTrainedTokenizerBase", share: float
) -> Prompts:
    prompt = policy_prompt(run)
    rows = [
        _row(claim, _messages(prompt, claim, run.experiment), tokenizer, share)
        for claim in claims.iter_rows(named=True)
    ]
    limit = run.experiment.sampling.max_prompt_tokens
    kept = tuple(row for row in rows if row["prompt_tokens"] <= limit)
    return Prompts(kept, len(rows) - len(kept))


def _messages(prompt: PromptFile, claim: Row, experiment: Experiment) -> list[dict[str, str]]:
    evidence = claim["evidence"]
    if experiment.evidence_view is not None:
        evidence = evidence_view(claim["claim"], evidence, experiment.evidence_view)
    messages = policy_messages(prompt, evidence, claim["claim"])
    return [{"role": turn.role, "content": turn.content} for turn in messages]


def _row(
    claim: Row,
    messages: list[dict[str, str]],
    tokenizer: "PreTrainedTokenizerBase",
    share: float,
) -> Row:
    text = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
    # The call that TRL makes, so that lengths are those of the prompts that it samples from.
    tokens: Any = tokenizer.apply_chat_template(
        messages, add_generation_prompt=True, tokenize=True, return_dict=True
    )
    ids = list(tokens["input_ids"])
    kept = {name: claim[name] for name in ("claim_id", "claim", "evidence", "label", "source")}
    return kept | {
        "prompt": messages,
        "prompt_ids": ids,
        "n_star": claim["n_star"],
        "labelled": is_labelled(claim["claim"], share),
        "prompt_digest": hashlib.sha256(str(text).encode("utf-8", "surrogatepass")).hexdigest(),
        "prompt_tokens": len(ids),
    }


@dataclass(frozen=True, slots=True)
class Completion:
    """One sampled completion and its claim. ``tokens`` include the end token, if there is one.

    ``labels`` are the verdicts that it may end with.
    """

    claim_id: str
    claim: str
    evidence: str
    label: Verdict
    n_star: int
    source: str
    labelled: bool
    prompt_digest: str
    prompt_tokens: int
    tokens: tuple[int, ...]
    text: str
    truncated: bool
    labels: tuple[Verdict, ...] = LABELS


@dataclass(frozen=True, slots=True)
class CompletionReader:
    """Decodes sampled tokens. ``ends`` are the token ids that end a completion.

    ``labels`` are the verdicts that it may end with.
    """

    tokenizer: "PreTrainedTokenizerBase"
    ends: frozenset[int]
    labels: tuple[Verdict, ...] = LABELS

    def read(
        self, columns: Mapping[str, Sequence[Any]], tokens: Sequence[Sequence[int]]
    ) -> list[Completion]:
        """The completions of a batch whose columns include ``CLAIM_COLUMNS``."""
        return [
            Completion(
                **{name: columns[name][row] for name in CLAIM_COLUMNS},
                tokens=tuple(ids),
                text=self.text(ids),
                truncated=not ids or ids[-1] not in self.ends,
                labels=self.labels,
            )
            for row, ids in enumerate(tokens)
        ]

    def text(self, tokens: Sequence[int]) -> str:
        """The policy's text; the tags of a trace are no special tokens and stay."""
        return str(
            self.tokenizer.decode(
                list(tokens), skip_special_tokens=True, clean_up_tokenization_spaces=False
            )
        )


def completion_reader(
    tokenizer: "PreTrainedTokenizerBase",
    ends: Sequence[int],
    labels: tuple[Verdict, ...] = LABELS,
) -> CompletionReader:
    """A reader that takes a padding token for an end, as TRL's mask of truncated ones does.

    Raises:
        TrainingError: decoding would drop a tag of the trace.
    """
    padding: Any = tokenizer.pad_token_id
    reader = CompletionReader(tokenizer, frozenset({*ends, padding}), labels)
    tags = "<think><question><answer><verification>"
    ids: Any = tokenizer(tags, add_special_tokens=False)["input_ids"]
    if "".join(reader.text(ids).split()) != tags:
        raise TrainingError("the tokenizer drops tags of the trace, which are its special tokens")
    return reader


def rollouts_of(batch: Sequence[Completion], group_size: int) -> list[Rollout]:
    """The rollouts, numbered within their group; without a label where the claim is unlabelled.

    Raises:
        TrainingError: a group does not have ``group_size`` members; the majority vote of a part
            of it may differ.
    """
    for claim_id, size in Counter(one.claim_id for one in batch).items():
        if size != group_size:
            raise TrainingError(
                f"group '{claim_id}' has {size} rollouts in this batch, not {group_size}"
            )
    counts: Counter[str] = Counter()
    rollouts = []
    for one in batch:
        rollouts.append(rollout_of(one, counts[one.claim_id]))
        counts[one.claim_id] += 1
    return rollouts


def rollout_of(one: Completion, number: int = 0) -> Rollout:
    """The rollout of a completion, with its number within its group."""
    return Rollout(
        group=one.claim_id,
        number=number,
        claim=one.claim,
        evidence=one.evidence,
        trace=parse_trace(one.text, one.labels),
        label=one.label if one.labelled else None,
        n_star=one.n_star,
        truncated=one.truncated,
    )
