"""Lessons of the tiny policy's warm start as tokens, in batches."""

import random
from collections.abc import Iterator, Sequence
from typing import Any

from decomposerl.prompts.policy import policy_messages
from decomposerl.prompts.template import PromptFile
from resources.policy_tiny.folder import PROMPT
from resources.store.prompts import load_prompt
from sample.policy_lessons import Lesson

Example = tuple[list[int], list[int]]
"""The tokens of a prompt and of its trace with the end token."""
_SORTED = 32
"""Batches whose examples are sorted by length together, which saves padding."""


def encoded(pool: Sequence[Lesson], tokenizer: Any) -> list[Example]:  # noqa: ANN401 - a tokenizer
    """Each lesson as the tokens of its training prompt, and of its trace with the end token."""
    prompt = load_prompt("policy", str(PROMPT.parent))
    rendered = [_rendered(prompt, lesson, tokenizer) for lesson in pool]
    heads = tokenizer(rendered, add_special_tokens=False)["input_ids"]
    tails = tokenizer([lesson.trace for lesson in pool], add_special_tokens=False)["input_ids"]
    return [
        (head, [*tail, tokenizer.eos_token_id]) for head, tail in zip(heads, tails, strict=True)
    ]


def _rendered(prompt: PromptFile, lesson: Lesson, tokenizer: Any) -> str:  # noqa: ANN401 - a tokenizer
    messages = policy_messages(prompt, lesson.view, lesson.claim)
    plain = [{"role": message.role, "content": message.content} for message in messages]
    text: str = tokenizer.apply_chat_template(plain, tokenize=False, add_generation_prompt=True)
    return text


def batches(pool: list[Example], size: int, rng: random.Random) -> Iterator[list[Example]]:
    """Endless batches, each pass in a new order."""
    while True:
        drawn = rng.sample(pool, len(pool))
        grouped: list[list[Example]] = []
        for start in range(0, len(drawn), size * _SORTED):
            near = sorted(
                drawn[start : start + size * _SORTED], key=lambda x: len(x[0]) + len(x[1])
            )
            grouped += [near[at : at + size] for at in range(0, len(near), size)]
        yield from rng.sample(grouped, len(grouped))
