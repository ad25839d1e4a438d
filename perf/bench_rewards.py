"""The rewards and the plan of judge calls, next to the time that each may take.

The batch has 512 rollouts of 64 prompts: traces of three cycles with realistic lengths, one
answer in ten an abstention, half of the prompts without a label; the rulings are given. The
"peer" is the allowed time, so a ratio of 1 is just in time. Judges and embedders are not part
of the measured time.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from statistics import median
from typing import TypeVar

import numpy as np

from decomposerl.judge.call import Calls, JudgeCall, Ruling, needed_calls
from decomposerl.replies.rulings import CRITERIA
from decomposerl.rewards.reward import RewardCase
from decomposerl.rewards.scoring import RewardedBatch, reward_batch, signals_of
from decomposerl.rewards.settings import RewardSettings
from decomposerl.schemas import VERDICTS
from decomposerl.traces.grammar import parse_trace
from decomposerl.traces.rollout import Rollout
from perf.sizes import Sizes
from perf.timing import Row, allowed_row, timed

PROMPTS, PER_PROMPT, QUESTIONS, DIMENSIONS = 64, 8, 3, 384
ROLLOUTS = PROMPTS * PER_PROMPT
ALLOWED_S = {"scoring": 0.050, "a rollout": 0.001}
RUNS = 9
SEED = 7
NO_VECTORS = {"diversity": 0.0}
_EVIDENCE = "The committee met in the spring of 1921 and agreed on the plan of the bridge. " * 40
_THOUGHT = "The bridge is named in the third sentence, and the year stands beside it. " * 4
Answer = TypeVar("Answer")


def reward_rows(sizes: Sizes) -> Iterator[Row]:
    """Parsing and planning per rollout; scoring without vectors and with them."""
    del sizes  # the bars hold for this batch
    texts = [_text(number) for number in range(ROLLOUTS)]
    seconds, planned = _repeated(lambda: _planned(texts))
    yield allowed_row(
        "judge planning and parsing a rollout",
        seconds / ROLLOUTS,
        ALLOWED_S["a rollout"],
        f"{len(set(chain.from_iterable(own.values() for _, own in planned))):,} distinct calls",
    )
    cases = _cases(planned)
    for name, weights in (
        ("scoring 512 rollouts", NO_VECTORS),
        ("scoring 512 rollouts, diversity on", {}),
    ):
        settings = RewardSettings(weights=weights)
        seconds, scored = _repeated(lambda settings=settings: reward_batch(cases, settings))
        yield allowed_row(name, seconds, ALLOWED_S["scoring"], _summary(scored))


def _summary(scored: RewardedBatch) -> str:
    return f"{len(scored.results)} rewards"


def _repeated(work: Callable[[], Answer]) -> tuple[float, Answer]:
    """Median seconds and the last result, after one warm-up run."""
    work()
    runs = [timed(work) for _ in range(RUNS)]
    return median(seconds for seconds, _ in runs), runs[-1][1]


def _text(number: int) -> str:
    """A distinct trace; some questions are shared within a prompt, as in real rollouts."""
    cycles = []
    for part in range(QUESTIONS):
        known = (number + part) % 10 != 0
        fact = f"The committee agreed on part {part} in 19{number % 90 + 10}, as planned."
        answer = fact if known else f"I don't know; the document does not mention part {part}."
        question = f"In which year was part {part} of bridge {number // 3} agreed on?"
        cycles.append(
            f"<question>{question}</question>\n<answer>{answer}</answer>\n"
            f"<think>{_THOUGHT}{number}</think>"
        )
    verdict = "Refuted" if number % 3 else "Supported"
    parts = [f"<think>{_THOUGHT}</think>", *cycles, f"<verification>{verdict}</verification>"]
    return "\n".join(parts)


def _planned(texts: Sequence[str]) -> list[tuple[Rollout, Calls]]:
    rollouts = (_rollout(number, text) for number, text in enumerate(texts))
    return [(rollout, needed_calls(rollout)) for rollout in rollouts]


def _rollout(number: int, text: str) -> Rollout:
    prompt = number // PER_PROMPT
    return Rollout(
        group=f"prompt {prompt}",
        number=number % PER_PROMPT,
        claim=f"Bridge {prompt} was agreed on in 1921, by a committee of five.",
        evidence=f"{_EVIDENCE}{prompt}",
        trace=parse_trace(text),
        label="Supported" if prompt % 2 else None,
        n_star=QUESTIONS,
    )


def _cases(planned: Sequence[tuple[Rollout, Calls]]) -> list[RewardCase]:
    """Every rollout with its rulings and random unit vectors."""
    rng = np.random.default_rng(SEED)
    vectors = rng.standard_normal((ROLLOUTS, QUESTIONS, DIMENSIONS), dtype=np.float32)
    vectors /= np.linalg.norm(vectors, axis=2, keepdims=True)
    rulings = {call: _ruling(call) for _, own in planned for call in own.values()}
    return [
        RewardCase(rollout, signals_of(rollout, own, rulings), rows)
        for (rollout, own), rows in zip(planned, vectors, strict=True)
    ]


def _ruling(call: JudgeCall) -> Ruling:
    """A ruling that depends only on the call."""
    number = int(call.key[:8], 16)
    if call.task == "coverage":
        return Ruling(VERDICTS[number % len(VERDICTS)])
    if call.task == "atomicity":
        return Ruling(tuple(bool(number >> bit & 1) for bit in reversed(range(len(CRITERIA)))))
    return Ruling(bool(number % 2))
