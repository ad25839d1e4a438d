"""The likeliest tokens at each step of a generation, and the probability of the chosen one.

Takes the scores that transformers chooses from, step by step, keeps the few largest log
probabilities of each, and gives a ``Token`` for each token that was chosen. A whole vocabulary a
step would not fit into memory; these few numbers do.

Left out deliberately: what the tokens spell (``decomposerl.evaluation.confidence``).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from decomposerl.chat import Token


@dataclass(frozen=True, slots=True)
class StepLogprobs:
    """Log probability of the chosen token, and ids and log probabilities of the likeliest."""

    chosen: float
    ids: Sequence[int]
    logprobs: Sequence[float]

    def token(self, number: int, tokenizer: Any) -> Token:  # noqa: ANN401 - transformers' tokenizer
        """The step in texts; ``number`` is the chosen token's id."""

        def text(one: int) -> str:
            return str(tokenizer.decode([one], clean_up_tokenization_spaces=False))

        pairs = zip(self.ids, self.logprobs, strict=True)
        return Token(text(number), self.chosen, tuple((text(one), value) for one, value in pairs))


class TopLogprobs:
    """A logits processor that changes nothing and remembers.

    Scores are (batch, vocabulary), before any temperature.
    """

    def __init__(self, count: int) -> None:
        """``count`` tokens are kept a step; 0 keeps the chosen one's probability alone."""
        self._count = count
        self._last: Any = None
        self._chosen: list[Any] = []
        self._ids: list[Any] = []
        self._values: list[Any] = []

    def __call__(self, input_ids: Any, scores: Any) -> Any:  # noqa: ANN401 - tensors
        """Note this step's scores, and which token the step before chose."""
        if self._last is not None:
            self._choose(input_ids[:, -1])
        self._last = scores.float().log_softmax(dim=-1)
        top = self._last.topk(self._count, dim=-1)
        self._ids.append(top.indices)
        self._values.append(top.values)
        return scores

    def told(self, written: Any) -> list[list[StepLogprobs]]:  # noqa: ANN401 - a tensor
        """Each row's steps; ``written`` is what was chosen, shape (batch, steps)."""
        import torch

        if self._last is None:
            return [[] for _ in written]
        self._choose(written[:, -1])
        chosen = torch.stack(self._chosen, dim=1).tolist()
        ids = torch.stack(self._ids, dim=1).tolist()
        values = torch.stack(self._values, dim=1).tolist()
        rows = zip(chosen, ids, values, strict=True)
        return [[StepLogprobs(*step) for step in zip(*row, strict=True)] for row in rows]

    def _choose(self, ids: Any) -> None:  # noqa: ANN401 - a tensor
        self._chosen.append(self._last.gather(1, ids[:, None])[:, 0])
