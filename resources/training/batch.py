"""Completions with the claims they are about: what comes out of a generation batch.

Takes the columns of a batch and the sampled tokens, gives ``Sampled`` values; from these the
rollouts that rewards read. Text is rebuilt from the tokens: a tokenizer's reply parser, which
TRL would use, may cut thoughts out of it.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from decomposerl.errors import TrainingError
from decomposerl.traces.grammar import parse_trace
from decomposerl.traces.rollout import Rollout
from decomposerl.traces.trace import Verdict
from resources.training.library_types import Tokenizer

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


@dataclass(frozen=True, slots=True)
class Sampled:
    """One completion and its claim. ``tokens`` holds the end token, where there is one."""

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


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads tokens back. ``ends`` are the token ids that end a completion."""

    tokenizer: Tokenizer
    ends: frozenset[int]

    def read(
        self, columns: Mapping[str, Sequence[Any]], tokens: Sequence[Sequence[int]]
    ) -> list[Sampled]:
        """The completions of a batch whose columns are ``CLAIM_COLUMNS``, and others."""
        return [
            Sampled(
                **{name: columns[name][row] for name in CLAIM_COLUMNS},
                tokens=tuple(ids),
                text=self.text(ids),
                truncated=not ids or ids[-1] not in self.ends,
            )
            for row, ids in enumerate(tokens)
        ]

    def text(self, tokens: Sequence[int]) -> str:
        """What the policy wrote; the tags of a trace are no special tokens and stay."""
        text: str = self.tokenizer.decode(
            list(tokens), skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        return text


def reader_of(tokenizer: Tokenizer, ends: Sequence[int]) -> Reader:
    """A reader that takes a padding token for an end, as TRL's mask of truncated ones does.

    Raises:
        TrainingError: decoding would drop a tag of the trace.
    """
    reader = Reader(tokenizer, frozenset({*ends, tokenizer.pad_token_id}))
    tags = "<think><question><answer><verification>"
    if "".join(reader.text(tokenizer(tags, add_special_tokens=False).input_ids).split()) != tags:
        raise TrainingError("the tokenizer has tags of the trace for special tokens and drops them")
    return reader


def rollouts_of(batch: Sequence[Sampled], group_size: int) -> list[Rollout]:
    """The rollouts, numbered within their group; without a label where the claim gives none.

    Raises:
        TrainingError: a group has not ``group_size`` members; a majority vote over a part of
            it would be another one.
    """
    sizes = Counter(one.claim_id for one in batch)
    for claim_id, size in sizes.items():
        if size != group_size:
            raise TrainingError(
                f"group '{claim_id}' has {size} rollouts in this batch, not {group_size}"
            )
    met: Counter[str] = Counter()
    rollouts = []
    for one in batch:
        rollouts.append(_rollout(one, met[one.claim_id]))
        met[one.claim_id] += 1
    return rollouts


def _rollout(one: Sampled, number: int) -> Rollout:
    return Rollout(
        group=one.claim_id,
        number=number,
        claim=one.claim,
        evidence=one.evidence,
        trace=parse_trace(one.text),
        label=one.label if one.labelled else None,
        n_star=one.n_star,
        truncated=one.truncated,
    )
