"""Top log probabilities per token of a generation with transformers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from decomposerl.chat import Token


@dataclass(frozen=True, slots=True)
class StepLogprobs:
    """Log probability of the chosen token, and the top tokens with their log probabilities."""

    chosen: float
    ids: Sequence[int]
    logprobs: Sequence[float]

    def token(self, number: int, tokenizer: Any) -> Token:  # noqa: ANN401 - transformers' tokenizer
        """The step with token texts; ``number`` is the chosen token's id."""

        def text(token: int) -> str:
            return str(tokenizer.decode([token], clean_up_tokenization_spaces=False))

        pairs = zip(self.ids, self.logprobs, strict=True)
        return Token(text(number), self.chosen, tuple((text(one), value) for one, value in pairs))


class TopLogprobs:
    """A logits processor that records top log probabilities and changes nothing.

    Scores are (batch, vocabulary), before any temperature.
    """

    def __init__(self, count: int) -> None:
        """``count`` top tokens are kept per step; with 0 only the chosen token's probability."""
        self._count = count
        self._last: Any = None
        self._chosen: list[Any] = []
        self._ids: list[Any] = []
        self._values: list[Any] = []

    def __call__(self, input_ids: Any, scores: Any) -> Any:  # noqa: ANN401 - tensors
        """Record this step's scores, and the token that the previous step chose."""
        if self._last is not None:
            self._choose(input_ids[:, -1])
        self._last = scores.float().log_softmax(dim=-1)
        # A few numbers per step: a whole vocabulary per step would not fit into memory.
        top = self._last.topk(self._count, dim=-1)
        self._ids.append(top.indices)
        self._values.append(top.values)
        return scores

    def steps(self, generated: Any) -> list[list[StepLogprobs]]:  # noqa: ANN401 - a tensor
        """Each row's steps; ``generated`` are the chosen tokens, shape (batch, steps)."""
        import torch

        if self._last is None:
            return [[] for _ in generated]
        self._choose(generated[:, -1])
        chosen = torch.stack(self._chosen, dim=1).tolist()
        ids = torch.stack(self._ids, dim=1).tolist()
        values = torch.stack(self._values, dim=1).tolist()
        rows = zip(chosen, ids, values, strict=True)
        return [[StepLogprobs(*step) for step in zip(*row, strict=True)] for row in rows]

    def _choose(self, ids: Any) -> None:  # noqa: ANN401 - a tensor
        self._chosen.append(self._last.gather(1, ids[:, None])[:, 0])
